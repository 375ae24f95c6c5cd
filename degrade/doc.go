// Package degrade DECIDES which tier serves a request. It is a pure function of policy,
// order and health: no clock, no goroutine, no I/O, no randomness.
//
// Two things are kept apart. [Machine] is the health of one target as one chain sees it
// in this process; it follows the store only. [Order] is what an operator says of the
// chain; it lies over health and hides it, but never stops it from being followed, so a
// chain whose order ends stands at once where its store stands.
//
// It does not sense (package breaker does), act (package gateway) or read files.
package degrade
