package switchcfg

import (
	"crypto/ed25519"
	"log/slog"
	"time"
)

const (
	defaultPoll  = 4 * time.Second // with its jitter and a fetch below the 6 s a flip may take
	defaultFetch = 3 * time.Second
)

// FollowConfig says how a document is followed.
type FollowConfig struct {
	Poll     time.Duration // between two fetches, jittered by a quarter; 4 s when not positive
	Fetch    time.Duration // deadline of one fetch; 3 s when not positive
	LastGood string        // file that keeps the document in force over a restart; "" keeps none
	Instance string        // of this process, for a canary; "": it is never in one
	Canaries bool          // take versions for a canary too: for who looks on, not for who obeys
	// Keys sign documents: what none of them has signed is refused, in LastGood too. Empty:
	// signatures are not looked at.
	Keys   []ed25519.PublicKey
	Logger *slog.Logger   // nil discards
	Report func(r Report) // called after the start and after every fetch, from Follow's goroutine; nil for none
}

func (c FollowConfig) withDefaults() FollowConfig {
	if c.Poll <= 0 {
		c.Poll = defaultPoll
	}
	if c.Fetch <= 0 {
		c.Fetch = defaultFetch
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		c.Report = func(Report) {}
	}
	return c
}
