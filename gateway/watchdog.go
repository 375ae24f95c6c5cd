package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

const (
	watchStep = 10 * time.Millisecond // what is due together is done together: one renewal for many locks
	// lull is how long the loop looks again for with nothing to keep after it was woken. Where
	// short locks come and go one at a time, each found it asleep for ever and woke it for
	// nothing, which cost a third of an uncontended pair.
	lull = 250 * time.Millisecond
)

// watchdog keeps locks: one goroutine and one heap for all of them, so that ten thousand
// held locks cost memory and no goroutine. A lock is due when it is to be renewed, when
// its time runs out, or when it was held for as long as max_hold allows.
//
// Renewal stops before release: Unlock takes the lock out here first, and what is on the
// wire at that moment changes nothing, since a Renew never revives what was released.
// Renewals go out beside the loop, one at a time for each target, so a store that hangs
// keeps no lock from ending in time. A lock whose lease is too short to wait for the one that
// is out goes beside it.
type watchdog struct {
	gw   *Gateway
	wake chan struct{} // buffered: something is due earlier than thought

	mu    sync.Mutex
	due   queue[*lease]             // guarded by mu
	next  time.Time                 // when the loop will look again; guarded by mu
	batch map[renewal]*renewalBatch // guarded by mu
}

// watch begins to keep l, which was granted or renewed at now.
func (w *watchdog) watch(l *lease, now time.Time) {
	l.mu.Lock()
	due := l.nextDueLocked(now)
	over := l.how != ""
	l.mu.Unlock()
	if !over {
		w.set(l, due)
	}
}

// set makes l due at due. A lock that was forgotten meanwhile stays so: its end was told
// before it left, under the lock's own mutex.
func (w *watchdog) set(l *lease, due time.Time) {
	w.mu.Lock()
	if !l.slot.gone {
		w.due.set(l, due)
	}
	earlier := due.Before(w.next)
	w.mu.Unlock()
	if earlier {
		poke(w.wake)
	}
}

// forget takes l out for good.
func (w *watchdog) forget(l *lease) {
	w.mu.Lock()
	l.slot.gone = true
	w.due.drop(l)
	w.mu.Unlock()
}

// nextDueLocked is when a lock that was looked after at now wants to be again.
func (h *lease) nextDueLocked(now time.Time) time.Time {
	due := h.grant.ExpiresAt
	if end := h.grant.AcquiredAt.Add(h.chain.policy.MaxHold); end.Before(due) {
		due = end
	}
	if h.every > 0 {
		// A little early rather than late, and not all that were taken together together.
		if renew := now.Add(h.every - jitter(h.every/16)); renew.Before(due) {
			due = renew
		}
	}
	return due
}

// run is the one loop.
func (w *watchdog) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []*lease
	idle := time.Hour
	for {
		due = w.collect(due[:0])
		now := time.Now()
		for i, l := range due {
			w.tend(l, now)
			due[i] = nil
		}
		w.send()
		timer.Reset(w.pause(idle))
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			idle = lull
		case <-timer.C:
			idle = time.Hour
		}
	}
}

// collect takes out what is due.
func (w *watchdog) collect(into []*lease) []*lease {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		l, ok := w.due.first()
		if !ok || l.slot.due.After(now) {
			return into
		}
		w.due.drop(l)
		into = append(into, l)
	}
}

// pause is how long the loop may sleep: until the first is due, rounded up, so that locks
// taken at about the same time are renewed together; idle with nothing to keep.
func (w *watchdog) pause(idle time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := idle
	if l, ok := w.due.first(); ok {
		wait = max(time.Until(l.slot.due), 0) + watchStep
	}
	w.next = time.Now().Add(wait)
	return wait
}

// tend does for l what is due: its end, or its renewal.
func (w *watchdog) tend(l *lease, now time.Time) {
	l.mu.Lock()
	expired := !now.Before(l.grant.ExpiresAt)
	tooLong := now.Sub(l.grant.AcquiredAt) >= l.chain.policy.MaxHold
	if l.every > 0 && l.abandonedLocked() {
		l.every = 0 // whoever asked for it is gone: nobody renews for him
	}
	renew := l.every > 0 && !expired && !tooLong
	l.mu.Unlock()
	switch {
	case expired:
		l.expire()
	case tooLong:
		l.lose(audit.Forced, errMaxHold)
	case renew:
		w.enqueue(l, now)
	}
	l.mu.Lock()
	over, due := l.how != "", l.nextDueLocked(now)
	if renew { // its next renewal is set when this one is answered
		due = l.grant.ExpiresAt
	}
	l.mu.Unlock()
	if !over {
		w.set(l, due)
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// lasts is how long the holder may go on if nothing is renewed.
func (h *lease) lasts(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grant.ExpiresAt.Sub(now)
}

// afterRenewalLocked is when a lock is due again: after a missing answer soon, so that
// several tries fit into what is left of the lease.
func (h *lease) afterRenewalLocked(ans tierlock.Answer) time.Time {
	now := time.Now()
	due := h.nextDueLocked(now)
	if ans.Status != 0 || h.every == 0 {
		return due
	}
	if retry := now.Add(jitter(max(h.every/8, h.chain.policy.Attempt/2))); retry.Before(due) {
		return retry
	}
	return due
}
