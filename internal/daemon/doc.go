// Package daemon WIRES the process: it reads the one configuration file, opens what it
// names, puts the gateway, the audit log, the switch, the metrics and the HTTP API
// together, and takes them apart again in reverse. It is the only place that knows every
// store and source.
//
// It decides no tier and holds no lock. What can be tried again (a store, Kafka or Nacos
// that cannot be reached at the start) never keeps it from starting.
package daemon
