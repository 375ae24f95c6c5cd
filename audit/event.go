package audit

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// Type says what an event is. Holds are acquire and end; optimistic is a point in time;
// the others are markers, which go to every partition.
type Type string

// The types.
const (
	TypeAcquire    Type = "acquire"    // a grant was given out
	TypeEnd        Type = "end"        // and is over, see How
	TypeOptimistic Type = "optimistic" // nothing was held: the caller compared a version
	TypeHello      Type = "hello"      // a log was opened: a new epoch begins
	TypeHeartbeat  Type = "heartbeat"  // the producer lives; its range of seqs, tiers, switch, and what changed
	TypeSeal       Type = "seal"       // an epoch is over: nothing of it comes after Last
	TypeGap        Type = "gap"        // events that are lost, and why
)

// Marker tells whether events of this type speak for the whole producer. A marker has one
// seq and goes to every partition.
func (t Type) Marker() bool {
	switch t {
	case TypeHello, TypeHeartbeat, TypeSeal, TypeGap:
		return true
	}
	return false
}

// How a hold ended.
type How string

// The ends of a hold.
const (
	Released How = "released" // given back by its holder
	Lost     How = "lost"     // a renewal found it gone, or another's
	Expired  How = "expired"  // its time ran out in hand
	Forced   How = "forced"   // ended by an operator, by max_hold, or by the log itself: see Log.Record
)

// Work is how the caller's own work under a hold ended, as far as the caller told.
type Work string

// The outcomes of the caller's work.
const (
	Committed  Work = "committed"
	RolledBack Work = "rolled_back"
	Unknown    Work = "unknown" // the default
)

// Cause is why a gap event exists.
type Cause string

// The causes of a gap.
const (
	CauseCrash    Cause = "crash"    // the epoch was never sealed: what nobody waited for may be lost after From-1; To is 0
	CauseFull     Cause = "full"     // the disk took nothing; Count events, none has a seq
	CauseOverflow Cause = "overflow" // notes came faster than the disk took them; Count events, none has a seq
	CauseDamage   Cause = "damage"   // From to To cannot be read back from the disk
	CauseDead     Cause = "dead"     // From = To was refused by the stream and by its dead-letter topic
)

// Business is what the caller says of its own work: which record it touches and how. No
// personal data belongs here.
type Business struct {
	Type   string // "coupon": picks the check and the repair
	ID     string // the record's own id
	Op     string // "claim"
	Delta  int64  // by how much
	Before *int64 // value or version before, if known; must not change after the event was handed over
	After  *int64 // and after
}

// IsZero tells whether nothing was said.
func (b *Business) IsZero() bool { return *b == Business{} }

// Switch is the operator's order under which a grant was given; zero for none.
type Switch struct {
	Version uint64
	Reason  string
}

// Event is one record. Which fields count depends on Type; the log fills Producer, Epoch,
// Seq and Prev, so no caller can break their sequence. Times are written as UTC
// microseconds, durations as whole milliseconds (ClockError: microseconds).
type Event struct {
	Type  Type
	Chain string
	Key   tierlock.Key

	// ID is kept in this process and never written; Holder, its fingerprint, is.
	// Setting ID alone is enough: the log computes Holder off the caller's path.
	ID     tierlock.RequestID
	Holder string

	Tier       tierlock.Tier
	Store      string
	Exclusive  bool
	Token      tierlock.Token // zero is written as null
	GrantedAt  time.Time      // acquire, end; optimistic: when the answer was given
	EndedAt    time.Time      // end; optimistic: when the caller's work ended, if known
	TTL        time.Duration
	MaxHold    time.Duration // the latest possible end is GrantedAt + MaxHold where renewals go on; zero: GrantedAt + TTL
	ClockError time.Duration // how far this process's wall clock may be off
	How        How
	Outcome    Work
	Reason     tierlock.Reason
	Switch     Switch
	Business   Business

	Producer string // instance name
	Epoch    uint64 // rises at every Open of the producer's log
	Seq      uint64 // contiguous over the log's life, epochs included
	Prev     uint64 // the producer's previous seq in the same partition; zero: none before

	At         time.Time         // markers: when it was written
	First      uint64            // heartbeat, seal: first seq of the epoch
	Last       uint64            // heartbeat: seq before this one; seal: last seq of the epoch; zero: it has none
	Oldest     time.Time         // heartbeat: time of the oldest event not sent yet; zero: all sent
	Applied    uint64            // heartbeat: version of the switch document in force
	Refused    Refused           // heartbeat: calls that got no grant and left no event, since the epoch began
	PolicyHash string            // heartbeat: two services that configure one chain differently show here
	Tiers      map[string]string // heartbeat: chain → the tier that new grants get
	Steps      []Step            // heartbeat: changes of health since the one before
	Replaced   []Replaced        // heartbeat: servers that took the place of others since
	Sealed     uint64            // seal: which epoch
	Clean      bool              // seal: its own process sealed it
	From, To   uint64            // gap: see Cause
	Count      uint64            // gap: how many; zero: nobody knows
	Cause      Cause

	// OnFull is the chain's policy for a full disk, read by Log.Record; never written.
	OnFull OnFull

	// Extra are fields this version does not know, kept as they came.
	Extra map[string]json.RawMessage
}

// Acquired is the event of a grant: ttl as granted by the store, maxHold the latest end
// that renewals can reach (zero: none beyond ttl).
func Acquired(g tierlock.Grant, ttl, maxHold time.Duration) Event {
	var e Event
	e.SetAcquired(&g, ttl, maxHold)
	return e
}

// SetAcquired makes e what [Acquired] returns, without a copy.
func (e *Event) SetAcquired(g *tierlock.Grant, ttl, maxHold time.Duration) {
	e.set(TypeAcquire, g)
	e.TTL, e.MaxHold = ttl, maxHold
}

// Ended is the event of a grant's end.
func Ended(g tierlock.Grant, how How, outcome Work, at time.Time) Event {
	var e Event
	e.SetEnded(&g, how, outcome, at)
	return e
}

// SetEnded makes e what [Ended] returns, without a copy.
func (e *Event) SetEnded(g *tierlock.Grant, how How, outcome Work, at time.Time) {
	e.set(TypeEnd, g)
	e.How, e.Outcome, e.EndedAt = how, outcome, at
}

// set makes e an event of g, and nothing else of what it was.
func (e *Event) set(kind Type, g *tierlock.Grant) {
	*e = Event{}
	e.Type, e.Chain, e.Key, e.ID, e.Tier, e.Store = kind, g.Chain, g.Key, g.RequestID, g.Tier, g.Store
	e.Exclusive, e.Token, e.GrantedAt = g.Exclusive, g.Token, g.AcquiredAt
}

// Optimistic is the event of an answer without a lock, given at the time at; outcome is
// how the caller's versioned work ended, Unknown when nobody told.
func Optimistic(chain string, key tierlock.Key, id tierlock.RequestID, reason tierlock.Reason, outcome Work, at time.Time) Event {
	return Event{
		Type: TypeOptimistic, Chain: chain, Key: key, ID: id, Tier: tierlock.Optimistic, Store: "optimistic",
		Reason: reason, Outcome: outcome, GrantedAt: at,
	}
}

// EventID names the event on every copy: producer/epoch/seq.
func (e *Event) EventID() string {
	return string(appendID(make([]byte, 0, len(e.Producer)+32), e.Producer, e.Epoch, e.Seq))
}

func appendID(b []byte, producer string, epoch, seq uint64) []byte {
	b = append(append(b, producer...), '/')
	b = append(strconv.AppendUint(b, epoch, 10), '/')
	return strconv.AppendUint(b, seq, 10)
}

// Time is when the event happened: of an end its end, of a marker its writing.
func (e *Event) Time() time.Time {
	switch {
	case e.Type.Marker():
		return e.At
	case !e.EndedAt.IsZero():
		return e.EndedAt
	}
	return e.GrantedAt
}
