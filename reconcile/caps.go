package reconcile

import (
	"fmt"
	"slices"
	"time"
)

// Caps bound what repairs may do before a person has looked. An amount is what a check found
// wrong.
type Caps struct {
	PerMinute int // repairs applied in any minute, default 60
	Total     int // repairs applied in the life of the job, default unlimited
	// AmountPerMinute and AmountTotal are the same of amounts, default unlimited. A case that
	// is larger than AmountPerMinute by itself is failed: it could never be repaired.
	AmountPerMinute, AmountTotal int64
	Tries                        int // of one case, before its finding is failed, default 5
	// FailureRatio stops all repairs when more of the last 100 cases (at least 20) failed.
	// Default 0.05.
	FailureRatio float64
}

// budget counts what was done against the caps.
type budget struct {
	cfg       *Config
	recent    []spending // in the last minute
	total     int
	amount    int64
	results   []bool // of the last 100 cases: true is failed
	stopped   bool
	failures  int
	unchanged int // repairs that changed nothing
}

// spending is one repair that was applied.
type spending struct {
	at     time.Time
	amount int64
}

func tooMuch(wrong, most int64) string {
	return fmt.Sprintf("%d is wrong, which is more than caps.amount_per_minute (%d): it can never be repaired under it", wrong, most)
}

// allows tells whether the caps leave room for one more repair, of that amount.
func (b *budget) allows(amount int64) bool {
	if b.stopped {
		return false
	}
	c := &b.cfg.Caps
	if c.Total > 0 && b.total >= c.Total || c.AmountTotal > 0 && amount > c.AmountTotal-b.amount {
		b.stopped = true
		b.cfg.Logger.Error("repairs stopped: total cap reached", "total", b.total, "amount", b.amount, "next_amount", amount)
		return false
	}
	minute := time.Now().Add(-time.Minute)
	b.recent = slices.DeleteFunc(b.recent, func(s spending) bool { return !s.at.After(minute) })
	return len(b.recent) < c.PerMinute && (c.AmountPerMinute == 0 || amount <= b.left())
}

// left is what AmountPerMinute leaves now.
func (b *budget) left() int64 {
	left := b.cfg.Caps.AmountPerMinute
	for _, s := range b.recent {
		left -= s.amount
	}
	return left
}

// bound is how much one repair that was allowed may find wrong once it looks again: no more
// than most and than the caps leave; zero: no bound.
func (b *budget) bound(most int64) int64 {
	for _, c := range []struct{ limit, left int64 }{
		{b.cfg.Caps.AmountPerMinute, b.left()}, {b.cfg.Caps.AmountTotal, b.cfg.Caps.AmountTotal - b.amount},
	} {
		if c.limit > 0 && (most == 0 || c.left < most) {
			most = c.left
		}
	}
	return most
}

// spend counts a repair that was applied.
func (b *budget) spend(amount int64) {
	b.recent = append(b.recent, spending{time.Now(), amount})
	b.total++
	b.amount += amount
}

// count keeps the last 100 results and stops all repairs when too many of them failed: then
// the hook is wrong, not the data.
func (b *budget) count(failed bool) {
	const window, enough = 100, 20
	if len(b.results) == window {
		b.results = b.results[1:]
	}
	b.results = append(b.results, failed)
	if failed {
		b.failures++
	}
	bad := 0
	for _, f := range b.results {
		if f {
			bad++
		}
	}
	if len(b.results) >= enough && float64(bad) > b.cfg.Caps.FailureRatio*float64(len(b.results)) && !b.stopped {
		b.stopped = true
		b.cfg.Logger.Error("repairs stopped: too many failed", "failed", bad, "of", len(b.results))
	}
}
