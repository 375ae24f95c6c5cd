package tierlock

import (
	"context"
	"time"
)

// Backend is anything that grants: a store that all instances see, the table inside the
// process, or the fake. It answers; it never waits for a holder, retries, renews by
// itself, picks a tier or knows a chain.
//
// An answer is data and a missing answer is an error. "Held by another" is an answer, so
// err == nil is exactly what the breaker counts as health.
//
// Rules for every method, held by backend/backendtest:
//   - It returns by ctx.Deadline() (plus 20 ms), whatever the driver does. Done need not
//     fire then (see [Until]). How is the backend's business: a socket deadline or a
//     goroutine of its own.
//   - Once a Release sent after NotAfter has been answered, no Acquire of that ID takes
//     effect any more. Redis and SQL refuse it by their own clock.
//   - A missing answer is a [*Fault] that says whether the operation may still happen.
//   - Every operation may be repeated: same Hold, same effect, and a repeat never adds to
//     the depth.
//   - All methods may be called at once from any goroutine.
//   - Nothing is retried inside, but for a script the server does not know, an acquire
//     refused as late because the clock sample was old, and what a part of the store
//     refused because another serves the key: nothing has happened then.
type Backend interface {
	// Traits is constant, cheap and needs no I/O.
	Traits() Traits

	// Acquire asks once. Granted and Mine carry Token, Depth and Until; Held carries what
	// is known of the holder; Late says the request arrived after NotAfter and changed
	// nothing. Mine never extends: the remaining time and the first token come back.
	// With an Entry it enters a lock that the ID holds, and grants nothing: Mine, Held by
	// another, or Gone. Needs Traits.Entries.
	Acquire(ctx context.Context, req Request) (Answer, error)

	// Renew extends many holds in as few round trips as the store allows. Answers are in
	// the order of holds; a zero Answer means that this one got none and err says why.
	// Mine: extended, see Until. Gone, Held: lost. It never shortens and never revives an
	// expired hold.
	Renew(ctx context.Context, holds []Hold) ([]Answer, error)

	// Release gives one entry back. Released: it was the last one, free now. Mine: Depth
	// remain, whether or not Entry was one of them. Gone: it had expired. Held: someone
	// else's, untouched.
	Release(ctx context.Context, hold Hold) (Answer, error)

	// Lookup asks who holds the key and changes nothing: Mine, Held or Gone.
	Lookup(ctx context.Context, hold Hold) (Answer, error)
}

// Hold names one entry into one lock; it is all that any process or language needs to
// renew or release it.
type Hold struct {
	Key   Key
	ID    RequestID
	Entry uint64        // 0: the acquisition itself; else one re-entry, so a repeat changes nothing
	TTL   time.Duration // Acquire and Renew: from now, whole milliseconds
}

// Request is a Hold that is wanted, and the conditions.
type Request struct {
	Hold
	// NotAfter is on this process's monotonic clock; a store with a clock of its own
	// translates it and answers Late afterwards. See the rule on Release above.
	NotAfter time.Time
	Fenced   bool      // mint a token ...
	Floor    Token     // ... above this one (a chain that changes its store)
	WaitTill time.Time // if Held: keep a place in line under ID till then; zero: none. Needs Traits.Waiter
}

// Status is what a backend found. The zero Status means no answer.
type Status uint8

// The statuses.
const (
	Granted  Status = iota + 1 // newly held by this ID
	Mine                       // held by this ID already, or still
	Held                       // by another
	Late                       // refused: past NotAfter
	Released                   // was held by this ID, is free now
	Gone                       // nobody holds it
)

var statusWords = words{"none", "granted", "mine", "held", "late", "released", "gone"}

// String returns the status's word; "none" for zero and for what is none.
func (s Status) String() string { return statusWords.of(int(s)) }

// Answer is one backend's reply to one question.
type Answer struct {
	Status    Status
	Exclusive bool // Granted, Mine: nobody else inside Scope until this ends
	Token     Token
	Depth     int           // Granted, Mine: entries that were not given back, the acquisition's own included
	Until     time.Time     // this process's monotonic clock: the store cannot grant to another before; drift taken off
	Remaining time.Duration // Held: the holder's, as the store tells it; 0 unknown, or Endless
	Endless   bool          // Held: the store frees the key by itself at no time
	Holder    string        // Held: fingerprint of the holder, never its id
	Mark      uint64        // Held: the store's own position, for Waiter
}

// Traits declares what a backend is and can do. A capability is a non-nil field: what is
// not declared is not there, and backendtest tests what is declared.
type Traits struct {
	Store   string // "redis", "local", "bypass": a metric label
	Tier    Tier
	Scope   Scope
	Fences  bool // honours Request.Fenced and Floor
	Entries bool // honours Hold.Entry: one more into a lock, one of several given back
	Wire    int  // acquires that may be out at once per target; 0: no limit worth sensing

	Waiter  Waiter  // can tell when a held key may be free
	Passer  Passer  // can hand a lock to the next in one step
	Sharder Sharder // has parts that fail on their own
	Prober  Prober  // can be asked for a sign of life beside the traffic
	Wired   Wired   // can tell what is on the wire that no call waits for
	Clocked Clocked // knows how far its clock is from ours
	Memory  Memory  // knows since when it remembers what it granted
}

// Waiter blocks until an Acquire is worth while again: key may have become free since the
// answer held, or the place in line has come up. It may return early, never too late by
// more than held.Remaining, and returns ctx's error when ctx ends.
type Waiter interface {
	Wait(ctx context.Context, hold Hold, held Answer) error
}

// Passer replaces from by to in one step: new id, full TTL, new token, and of entries only
// its own; a place in line that to.WaitTill tells of is given up. Granted: to holds, also in
// answer to a repeat. It needs that from holds and that no other entry is left; else from's
// entry is given back and the answer is Release's. Late: it came after to.NotAfter and
// changed nothing.
type Passer interface {
	Pass(ctx context.Context, from Hold, to Request) (Answer, error)
}

// Sharder names the part of the store that serves a key. Sensor and wire gauge exist once
// per target; its names are few and outlive failover. A store without it has the one
// target "".
type Sharder interface {
	Target(key Key) string
}

// Prober runs the real lock operations once on a key of its own, over connections that
// traffic cannot exhaust. A nil error is an answered probe. It returns by ctx.Deadline()
// (plus 20 ms) like every other question, with a [*Fault] on a missing answer.
type Prober interface {
	Probe(ctx context.Context, target string) error
}

// Wired counts what occupies target without a call waiting for it, and that no [Fault].Done
// stands for: connections being made. Cheap, no I/O.
type Wired interface {
	Loose(target string) int
}

// Clocked bounds how far this process's wall clock may be from the store's, which all
// instances share: their events can be ordered within it. It needs no I/O; ok is false
// before the first sample.
type Clocked interface {
	ClockError() (bound time.Duration, ok bool)
}

// Memory tells since when target remembers what it granted, on this process's monotonic
// clock: when its server was started, or another one was found in its place. What was
// granted before may be forgotten. A server that kept all of it on a disk counts as
// started, too: nobody can tell from outside. It needs no I/O; ok is false before the first
// answer, and where the server does not say.
type Memory interface {
	Since(target string) (since time.Time, ok bool)
}

// Fault is the error of a question that got no answer. Stores classify their own driver's
// errors, since nobody else may import it.
//
// Reason is one of: ReasonAttempt (no answer by the deadline), ReasonCanceled (the
// caller's own context ended), ReasonSaturated (no connection free), ReasonDown (refused,
// loading, no master: certain at the first), ReasonBroken (reset or closed), ReasonDenied
// (the store answered that it will not) and ReasonWrongType (the key is no lock; says
// nothing of the store's health).
type Fault struct {
	Reason  Reason
	InDoubt bool            // the operation may have happened, or may still
	Done    <-chan struct{} // InDoubt: closed when nothing is on the wire any more; nil: already so
	Err     error
}

// Error names the reason and the driver's own error.
func (f *Fault) Error() string {
	if f.Err == nil {
		return string(f.Reason)
	}
	return string(f.Reason) + ": " + f.Err.Error()
}

// Unwrap returns the driver's own error.
func (f *Fault) Unwrap() error { return f.Err }
