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

// granted forgets an id whose caller has the lock.
func (a *asked) granted(id tierlock.RequestID) {
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

// settleTime is how long the product has to give back what nobody got: from the answer to
// the caller, or from the store's first answered probe.
const settleTime = time.Second

// due takes out the ids whose time to be settled is over.
func (a *asked) due(now time.Time) map[tierlock.RequestID]tierlock.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ill || now.Before(a.back.Add(settleTime)) {
		return nil
	}
	out := map[tierlock.RequestID]tierlock.Key{}
	for id, q := range a.open {
		if !now.Before(q.answered.Add(settleTime)) {
			out[id] = q.key
			delete(a.open, id)
		}
	}
	return out
}
