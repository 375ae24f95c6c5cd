// Package memory holds a process to the size that its work was measured in.
package memory

import (
	"os"
	"runtime/debug"
)

// Reconcile is for a process whose work is to reconcile, in bytes. Its 10 million events then
// stay below 1 GiB (docs/benchmarks.md): the rest is what the runtime does not count.
const Reconcile = 800 << 20

// Limit has the runtime collect earlier once it has so many bytes, until undo is called. It
// is no bound: what is in use may take more. A GOMEMLIMIT in the environment counts instead,
// "off" too.
func Limit(bytes int64) (undo func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	former := debug.SetMemoryLimit(bytes)
	return func() { debug.SetMemoryLimit(former) }
}
