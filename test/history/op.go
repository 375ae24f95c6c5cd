package history

import (
	"cmp"
	"slices"
	"time"
)

// Kind is what was asked.
type Kind string

// The kinds.
const (
	Acquire Kind = "acquire"
	Renew   Kind = "renew"
	Release Kind = "release"
	Hold    Kind = "hold" // from the grant in hand until it was given back or had to end: no question, but what a scan reads
	Read    Kind = "read" // of the guarded register; raises its mark first
	Write   Kind = "write"
)

// Outcome is what came of it. Empty: nobody knows, it may have happened.
type Outcome string

// The outcomes.
const (
	Granted  Outcome = "granted"  // Acquire
	Held     Outcome = "held"     // Acquire: by another
	Unsent   Outcome = "unsent"   // Acquire, Renew: refused without asking the store, or maybe so
	Kept     Outcome = "kept"     // Renew
	Lost     Outcome = "lost"     // Renew: not this holder's any more
	Released Outcome = "released" // Release
	Accepted Outcome = "accepted" // Read, Write
	Refused  Outcome = "refused"  // Read, Write: the token is stale
)

// Op is one line of a history. Times are nanoseconds of CLOCK_MONOTONIC, which all
// processes of one machine share.
type Op struct {
	ID      int // of the operation in its process; a line at the call is replaced by the one at the return
	Process int
	Client  int
	Kind    Kind
	Key     string
	Holder  string // fingerprint of the request id
	Call    int64
	Return  int64 // 0: its process ended before it
	Stalled int64 // of the time between the two, how long the process did not get to run, or wrote this line
	Outcome Outcome
	Reason  string // of a missing answer
	Tier    string
	TTL     int64
	Token   uint64
	Value   int64 // Read: what stood there; Write: what was to stand there
}

// History is a run as it was recorded.
type History struct {
	Ops     []Op
	Attempt time.Duration    // what an acquire may take
	Stands  []Stand          // what was seen in the store
	Last    map[string]int64 // where the register of each key ended; all begin at 0
}

// Stand is a lock that stood in the store at a moment, and still did a good while later.
type Stand struct {
	Key    string
	Holder string
	At     int64
}

// margin is what two readings of time may be apart: Redis counts milliseconds.
const margin = int64(5 * time.Millisecond)

// Merge puts the lines of all processes together: of two lines of one operation the one
// that knows more counts.
func Merge(lines ...[]Op) []Op {
	type name struct{ process, id int }
	at := map[name]int{}
	var all []Op
	for _, op := range slices.Concat(lines...) {
		n := name{op.Process, op.ID}
		if i, ok := at[n]; ok {
			if all[i].Return == 0 {
				all[i] = op
			}
			continue
		}
		at[n] = len(all)
		all = append(all, op)
	}
	slices.SortStableFunc(all, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	return all
}

// of returns the operations of these kinds on key; every key if it is empty.
func (h *History) of(key string, kinds ...Kind) []Op {
	var out []Op
	for _, op := range h.Ops {
		if (key == "" || op.Key == key) && slices.Contains(kinds, op.Kind) {
			out = append(out, op)
		}
	}
	return out
}

func (h *History) keys() []string {
	seen := map[string]bool{}
	for _, op := range h.Ops {
		seen[op.Key] = true
	}
	keys := make([]string, 0, len(seen))
	for key := range seen {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
