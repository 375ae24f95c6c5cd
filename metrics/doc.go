// Package metrics COUNTS: it holds every metric of Tierlock in one table and feeds it from
// gateway hooks and, at scrape time, from the status of a gateway, an audit log and a
// reconcile job. It is the only importer of client_golang.
//
// It decides nothing, keeps no series of its own beyond what the table names, never uses
// the default registry, and never has a lock key or a request id in a label.
package metrics
