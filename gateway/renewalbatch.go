package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	renewMost = 512 // locks in one Renew
	// patientMost is how long a renewal waits at most: a connection to Redis, which ends what
	// takes five seconds, bears it, and the time in which a connection is got too.
	patientMost = 4 * time.Second
	// aside is how many renewals of a kind go out at most beside one that takes long. Each ends
	// before the one that it does not wait for.
	aside = 3
	// patienceStep is how many times as long the next renewal may take after one without an answer.
	patienceStep = 3
)

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
