package breaker

import "sync/atomic"

// Tally counts what one user of a target has out on its wire, operations that were
// abandoned and are still there included, so that a full wire can be laid at somebody's
// door. Whose it is, is the caller's to know. The zero Tally is ready; Out may be called
// from any goroutine.
type Tally struct{ out atomic.Int64 }

// Out is how many operations are out.
func (t *Tally) Out() int { return int(t.out.Load()) }

// add does nothing on a nil Tally.
func (t *Tally) add(n int64) {
	if t != nil {
		t.out.Add(n)
	}
}
