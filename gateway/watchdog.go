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
	renewMost = 512                   // locks in one Renew
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
// keeps no lock from ending in time.
type watchdog struct {
	gw   *Gateway
	wake chan struct{} // buffered: something is due earlier than thought

	mu    sync.Mutex
	due   queue[*lease]             // guarded by mu
	next  time.Time                 // when the loop will look again; guarded by mu
	batch map[renewal]*renewalBatch // guarded by mu
}

// renewal is what one Renew may carry: locks of one backend, one target, one chain.
type renewal struct {
	by     *granter
	ladder *ladder
}

// renewalBatch is what waits for its turn on the wire.
type renewalBatch struct {
	locks    []*lease
	out      bool          // a Renew of this kind is under way
	patience time.Duration // with the next one, beyond an attempt; of the goroutine that is out alone
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
		w.enqueue(l)
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

// enqueue puts l into the next Renew of its kind.
func (w *watchdog) enqueue(l *lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := renewal{l.by, l.ladder}
	b := w.batch[kind]
	if b == nil {
		b = new(renewalBatch)
		w.batch[kind] = b
	}
	b.locks = append(b.locks, l)
}

// send starts a Renew of every kind that has something waiting and none under way.
func (w *watchdog) send() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, b := range w.batch {
		if !b.out && len(b.locks) > 0 {
			b.out = true
			w.gw.start(func(ctx context.Context) { w.renewAll(ctx, kind, b) })
		}
	}
}

// renewAll renews what waits in b, batch by batch, until nothing does.
func (w *watchdog) renewAll(ctx context.Context, kind renewal, b *renewalBatch) {
	for {
		w.mu.Lock()
		n := min(len(b.locks), renewMost)
		locks := append([]*lease(nil), b.locks[:n]...)
		if b.locks = b.locks[n:]; len(b.locks) == 0 {
			b.locks = nil
		}
		if n == 0 || ctx.Err() != nil {
			b.out = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		b.patience = w.renew(ctx, kind, locks, b.patience)
	}
}

// renew sends one Renew and hands each lock its answer. It tells how long the next one may
// take: a store that needs longer than an attempt, or a machine that lets nobody run for so
// long, loses no lock whose lease still stands.
func (w *watchdog) renew(ctx context.Context, kind renewal, locks []*lease, patience time.Duration) time.Duration {
	holds := make([]tierlock.Hold, len(locks))
	for i, l := range locks {
		holds[i] = l.whole()
	}
	now := time.Now()
	within := max(kind.ladder.chain.policy.Attempt, min(patience, shortest(locks, now)/2))
	pass := locks[0].counted(now)
	answers, err := kind.by.Renew(tierlock.Until(ctx, now.Add(within)), holds)
	pass.Exit(err)
	for i, l := range locks {
		var ans tierlock.Answer
		if i < len(answers) {
			ans = answers[i]
		}
		_ = l.renewed(ans, err) // hooks and contexts hear of it
		l.mu.Lock()
		due, over := l.afterRenewalLocked(ans), l.how != ""
		l.mu.Unlock()
		if !over {
			w.set(l, due)
		}
	}
	if err != nil && faultReason(err) == tierlock.ReasonAttempt {
		return 3 * within
	}
	return 0
}

// shortest is what is left of the lease that ends first.
func shortest(locks []*lease, now time.Time) time.Duration {
	left := locks[0].lasts(now)
	for _, l := range locks[1:] {
		left = min(left, l.lasts(now))
	}
	return left
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
