//go:build !nodemo

package demo

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// asked stands outermost before a store and remembers which request ids it was asked for,
// until their caller has got the grant: what is left may be a lock that nobody holds.
type asked struct {
	tierlock.Backend

	mu   sync.Mutex
	open map[tierlock.RequestID]question
	ill  bool      // the last probe failed
	back time.Time // of the first answered probe after a failed one; zero: none failed yet
}

// question is one acquire that may have left a lock behind.
type question struct {
	key      tierlock.Key
	answered time.Time // when the store's answer, or its absence, was known
}

func newAsked(b tierlock.Backend) *asked {
	return &asked{Backend: b, open: map[tierlock.RequestID]question{}}
}

// Traits passes on what the store can do, with an eye on its probes.
func (a *asked) Traits() tierlock.Traits {
	t := a.Backend.Traits()
	if t.Prober != nil {
		t.Prober = watchedProber{t.Prober, a}
	}
	return t
}

// Acquire passes the question on. An answer "held" or "late" leaves nothing behind.
func (a *asked) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	ans, err := a.Backend.Acquire(ctx, req)
	if err != nil || ans.Status == tierlock.Granted || ans.Status == tierlock.Mine {
		a.mu.Lock()
		a.open[req.ID] = question{req.Key, time.Now()}
		a.mu.Unlock()
	}
	return ans, err
}

// forget drops an id whose caller has the lock, or that was judged.
func (a *asked) forget(id tierlock.RequestID) {
	a.mu.Lock()
	delete(a.open, id)
	a.mu.Unlock()
}

type watchedProber struct {
	tierlock.Prober
	asked *asked
}

func (w watchedProber) Probe(ctx context.Context, target string) error {
	err := w.Prober.Probe(ctx, target)
	a := w.asked
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.ill {
		a.back = time.Now()
	}
	a.ill = err != nil
	return err
}

// What nobody got is looked for after settleTime, counted from the answer or from the
// store's first answered probe. An orphan is what still stands after orphanTime: its ttl is
// 60 s, and the ledger has had five tries by then, each of which a busy machine may starve.
const (
	settleTime = time.Second
	orphanTime = 10 * time.Second
)

// suspect is what may be an orphan.
type suspect struct {
	key  tierlock.Key
	late bool // its orphanTime is over
}

// suspects are the ids whose time to be settled is over, while the store is well.
func (a *asked) suspects(now time.Time) map[tierlock.RequestID]suspect {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[tierlock.RequestID]suspect{}
	if a.ill {
		return out
	}
	for id, q := range a.open {
		since := q.answered
		if a.back.After(since) {
			since = a.back
		}
		if waited := now.Sub(since); waited >= settleTime {
			out[id] = suspect{q.key, waited >= orphanTime}
		}
	}
	return out
}
