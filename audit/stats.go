package audit

import "time"

// Status is what the gateway tells for heartbeats, see [Log.Describe].
type Status struct {
	Applied    uint64            // version of the switch document in force; 0: none seen
	Refused    Refused           // calls that got no grant and left no event, since the process began
	PolicyHash string            // hash of all policies
	Tiers      map[string]string // chain → tier that new grants get
}

// Refused counts answers by chain, and by outcome and reason: "system_error down". Counts
// only rise.
type Refused map[string]map[string]uint64

// Stats is a moment of a [Log], for metrics and health. Counters start at Open.
type Stats struct {
	Producer string
	Epoch    uint64
	Durable  uint64 // last seq on the disk
	Sent     uint64 // last seq safe in the sink; what is above is the backlog
	Bytes    int64  // on the disk
	Quota    int64
	Oldest   time.Time // of the oldest event not sent; zero: all sent

	Recorded uint64 // events somebody waited for
	Noted    uint64 // events nobody waited for
	Overflow uint64 // notes that found no room
	Shed     uint64 // grants without an event, by policy shed
	Gaps     uint64 // gap events written
	Forced   uint64 // holds closed by the log since their caller gave up waiting

	Delivered  uint64 // messages safe in the sink, copies of markers included
	SendErrors uint64
	Dead       uint64 // events that went to the dead-letter destination

	Syncs     uint64
	SyncTime  time.Duration // in total
	TornBytes int64         // cut off the tail at Open
	Damaged   uint64        // seqs that could not be read back
	Full      bool          // ordinary events are refused now
	Failed    bool          // nothing can be written any more
}

// Backlog is how many events are on the disk and not in the sink.
func (s Stats) Backlog() uint64 { return s.Durable - min(s.Sent, s.Durable) }

// Hooks are told what happens, each on the goroutine that did it and with no lock held;
// they must be quick. A nil one is left out.
type Hooks struct {
	Synced func(SyncInfo)
	Sent   func(SendInfo)
	Gap    func(ev Event) // a gap event was written
	Dead   func(id, reason string)
}

// SyncInfo is one group commit.
type SyncInfo struct {
	Records int
	Bytes   int
	Took    time.Duration // write and fsync
	Err     error
}

// SendInfo is one call of [Sink.Send].
type SendInfo struct {
	Messages int
	Failed   int
	Took     time.Duration
	Err      error // the first
}
