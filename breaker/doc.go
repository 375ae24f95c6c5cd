// Package breaker SENSES how one target of a store is doing: what is out on its wire,
// what broke, what timed out, whether probes are answered. It answers one question, "may
// this operation start?", and reports a [Reading]; it never picks a tier (package degrade
// does) and knows no chain.
//
// The circuit breaker is sony/gobreaker. Its known traps are closed in fuse.go.
package breaker
