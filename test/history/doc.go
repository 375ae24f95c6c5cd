// Package history JUDGES what several processes saw of one lock: it holds the record of an
// operation, a model of a lock with a ttl and one of a fenced register for the checker of
// linearizability, and scans that need no model. Each check is a pure function over a
// recorded history, and its own tests show it a planted defect that it must find.
//
// The tests of this package record such histories: this very program, started several
// times, takes locks on a real Redis and increments a register in a real database, while
// the store is frozen, killed, emptied and cut off and the processes are stopped and killed.
package history
