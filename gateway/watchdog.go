package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

const (
	watchStep = 10 * time.Millisecond // what is due together is done together: one renewal for many locks
	renewMost = 512                   // locks in one Renew
	// patientMost is how long a renewal waits at most: a connection to Redis, which ends what
	// takes five seconds, bears it, and the time in which a connection is got too.
	patientMost = 4 * time.Second
	// aside is how many renewals of a kind go out at most beside one that takes long. Each ends
	// before the one that it does not wait for.
	aside = 3
	// patienceStep is how many times as long the next renewal may take after one without an answer.
	patienceStep = 3
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

// renewal is what one Renew may carry: locks of one backend, one target, one chain.
type renewal struct {
	by     *granter
	ladder *ladder
}

// renewalBatch is what waits for its turn on the wire.
type renewalBatch struct {
	locks    []renewing
	out      []time.Time   // until when each Renew of this kind waits that is under way
	patience time.Duration // with the next one, beyond an attempt
}

// renewing is a lock that waits for its renewal, and when it ends without one.
type renewing struct {
	*lease
	ends time.Time
}

// half is how long a renewal may take, or a lock wait for one, without the time for another try.
func (r renewing) half(now time.Time) time.Duration { return r.ends.Sub(now) / 2 }

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

// enqueue puts l into the next Renew of its kind.
func (w *watchdog) enqueue(l *lease, now time.Time) {
	one := renewing{l, now.Add(l.lasts(now))}
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := renewal{l.by, l.ladder}
	b := w.batch[kind]
	if b == nil {
		b = new(renewalBatch)
		w.batch[kind] = b
	}
	b.locks = append(b.locks, one)
}

// send starts a Renew of every kind that has something waiting and none under way, or one
// that keeps it waiting for too long.
func (w *watchdog) send() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, b := range w.batch {
		if locks := b.takeLocked(now); len(locks) > 0 {
			until := b.goLocked(kind, locks, now)
			w.gw.start(func(ctx context.Context) { w.renewAll(ctx, kind, b, locks, until) })
		}
	}
}

// takeLocked takes out what is to be renewed now: what waits, or with a Renew under way, what
// cannot wait for it.
func (b *renewalBatch) takeLocked(now time.Time) (taken []renewing) {
	if len(b.out) > aside {
		return nil
	}
	var wait time.Duration
	if len(b.out) > 0 {
		wait = slices.MinFunc(b.out, time.Time.Compare).Sub(now)
	}
	var stay []renewing
	for _, r := range b.locks {
		if len(taken) < renewMost && (len(b.out) == 0 || wait > r.half(now)) {
			taken = append(taken, r)
		} else {
			stay = append(stay, r)
		}
	}
	b.locks = stay
	return taken
}

// goLocked notes a Renew of locks, and tells until when it waits: for an attempt, or for as long
// as its locks, and those that come after them, can bear.
func (b *renewalBatch) goLocked(kind renewal, locks []renewing, now time.Time) time.Time {
	within := min(b.patience, patientMost)
	for _, r := range slices.Concat(locks, b.locks) {
		within = min(within, r.half(now))
	}
	until := now.Add(max(kind.ladder.chain.policy.Attempt, within))
	b.out = append(b.out, until)
	return until
}

// cameLocked notes what came of the Renew that went out at sent and waited until until. A store
// that needs longer than an attempt, or a machine that lets nobody run for so long, loses no
// lock whose lease still stands: the next one may take longer. An answer brings the attempt
// back by steps, since a store that always needs longer would have every other one in vain.
func (b *renewalBatch) cameLocked(sent, until time.Time, err error) {
	i := slices.Index(b.out, until)
	b.out = slices.Delete(b.out, i, i+1)
	if err != nil && faultReason(err) == tierlock.ReasonAttempt {
		b.patience = max(b.patience, patienceStep*until.Sub(sent))
		return
	}
	b.patience = max(b.patience/patienceStep, min(b.patience, patienceStep*time.Since(sent)))
}

// renewAll renews locks, and then what waits in b, batch by batch, until nothing does.
func (w *watchdog) renewAll(ctx context.Context, kind renewal, b *renewalBatch, locks []renewing, until time.Time) {
	for len(locks) > 0 && ctx.Err() == nil {
		sent := time.Now()
		err := w.renew(ctx, kind, locks, until)
		w.mu.Lock()
		b.cameLocked(sent, until, err)
		now := time.Now()
		if locks = b.takeLocked(now); len(locks) > 0 {
			until = b.goLocked(kind, locks, now)
		}
		w.mu.Unlock()
	}
}

// renew sends one Renew and hands each lock its answer.
func (w *watchdog) renew(ctx context.Context, kind renewal, locks []renewing, until time.Time) error {
	holds := make([]tierlock.Hold, len(locks))
	for i, l := range locks {
		holds[i] = l.whole()
	}
	pass := locks[0].counted(time.Now())
	answers, err := kind.by.Renew(tierlock.Until(ctx, until), holds)
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
			w.set(l.lease, due)
		}
	}
	return err
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
