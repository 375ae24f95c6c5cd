package gateway

import (
	"cmp"
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	// askRoom is what a question needs before the end of the wait: with less left, the
	// answer would come too late to be used.
	askRoom = 2 * time.Millisecond
	// askAgain is how often whoever waits behind this process's own holder asks the store
	// all the same: the holder may have lost the key without knowing it.
	askAgain = 100 * time.Millisecond
	// afterEnd is how long after the end that a holder was given the next try comes, so
	// that the clocks agree on it.
	afterEnd = 5 * time.Millisecond
)

// acquireWithin is acquire inside one total wait: try, sleep until another try is worth
// while, try again. A wait of zero is one attempt. Only "held" is worth waiting for; any
// other answer ends the call at once, and a call that was ever answered "held" ends as
// that, whatever came later.
func (c *Chain) acquireWithin(ctx context.Context, r *request) (*Lock, *tierlock.Error) {
	if r.end.IsZero() {
		return c.acquire(ctx, r, r.began)
	}
	r.at, r.turn = later(r.at, r.began), ask
	if r.route(r.at).Tier == tierlock.Shared { // any other tier answers each on its own
		var first bool
		r.place, first = c.gw.lines.join(r.key, r.hash, r.want(ctx))
		if !first || r.coalesced && r.behindOwn(ctx) {
			r.turn, r.heldAt = rest, r.at // it may be served without ever being answered "held"
		}
	}
	l, err := r.run(ctx)
	r.unline(l)
	return l, err
}

// unline gives the place up, if the call has one, with what came of it.
func (r *request) unline(l *Lock) {
	if r.place == nil {
		return
	}
	if r.scatter {
		r.place.dissolve()
	}
	r.leave(l != nil)
}

// turn is what a waiting call does next.
type turn uint8

const (
	rest turn = iota // sleep until somebody tells, or time does
	ask              // make an attempt
	take             // take what was handed over
	end              // the wait is over
)

// waiting is how far a request has come with its wait.
type waiting struct {
	place    *place // in this process's line; nil: it stands in none
	turn     turn
	at       time.Time       // of that
	tries    int             // that were answered held
	due      time.Time       // when to ask if nobody tells; zero: not known yet
	lastHeld *tierlock.Error // the last answer "held"
	gone     error           // why the caller wants no answer any more; nil: it does
	scatter  bool            // the others in line must not wait for their turn
	since    time.Time       // of a call that waits for its turn only: what is known of the key since then answers it
}

func (r *request) run(ctx context.Context) (l *Lock, err *tierlock.Error) {
	for {
		switch r.turn {
		case ask:
			l, err = r.chain.acquire(ctx, r, r.at)
		case take:
			l, err = r.chain.take(ctx, r, r.place.taken())
		case end:
			return r.over()
		case rest:
			r.sleep(ctx)
			continue
		}
		switch {
		case err == nil:
			r.scatter = l.tier != tierlock.Shared
			return l, nil
		case err.Reason != tierlock.ReasonHeld:
			r.scatter = r.storeFailed(err)
			return nil, r.ended(err)
		case r.once:
			if r.place != nil {
				r.place.sawHeld()
			}
			return nil, err
		}
		r.sleepOn(ctx, err)
	}
}

// sleepOn takes an answer "held" in: from now on the call sleeps.
func (r *request) sleepOn(ctx context.Context, err *tierlock.Error) {
	r.lastHeld, r.turn = err, rest
	r.tries++
	r.due = time.Time{}
	if r.heldBy == nil {
		r.due = r.nextTry(time.Now(), r.tries)
	}
	switch {
	case r.place == nil:
	case r.tier == tierlock.Shared:
		r.place.park(r.want(ctx))
	default:
		r.place.dissolve()
		r.alone()
	}
}

// alone gives the place up: the call goes on without one.
func (r *request) alone() {
	r.leave(false)
	r.place = nil
}

// leave gives the place up, and back what came to it at the moment in which the call's time
// was over or its caller left:
//  1. who unlocks hands over: the store has the call's id now, and the gift stands in the place;
//  2. the call wakes, sees first that it is over, and takes nothing;
//  3. without this, the key would stand in the store till its ttl, held by nobody.
func (r *request) leave(locked bool) {
	g, hold, ok := r.place.leave(locked)
	if !ok {
		return
	}
	till := time.Now()
	if g.cause != nil { // in doubt
		till = g.deadline
	}
	r.chain.gw.ledger.add(r.chain.entryOf(r.ladder, hold, till))
}

// nextTry is when to ask again after so many tries, where nobody tells.
func (r *request) nextTry(now time.Time, tries int) time.Time {
	pause, more := r.policy.Schedule.orDefault().pause(tries)
	if !more {
		return r.end
	}
	pause = jitter(pause)
	if left := r.held.Remaining; left > 0 {
		pause = min(pause, left+jitter(afterEnd))
	}
	return now.Add(pause)
}

// sleep waits until the call has something to do, or something changed.
func (r *request) sleep(ctx context.Context) {
	r.at = time.Now()
	switch {
	case canceled(ctx, r.at):
		r.turn, r.gone = end, cmp.Or(context.Cause(ctx), context.DeadlineExceeded)
	case !r.at.Before(r.end):
		r.turn = end
	case r.place == nil:
		r.sleepAlone(ctx)
	default:
		r.sleepInLine(ctx)
	}
}

// sleepAlone is the sleep of a call without a place in line.
func (r *request) sleepAlone(ctx context.Context) {
	switch {
	case r.lastHeld == nil: // its line was dissolved before it ever asked
		r.turn = ask
	case r.end.Sub(r.at) <= askRoom:
		r.pause(ctx, nil, r.end)
	case r.heldBy != nil && r.due.IsZero():
		r.beTold(ctx)
		r.due = time.Now()
	case r.at.Before(r.due):
		r.pause(ctx, nil, r.due)
	default:
		r.turn = ask
	}
}

// sleepInLine is the sleep of a call in line: whoever is not the first waits to become so,
// or for its end.
func (r *request) sleepInLine(ctx context.Context) {
	p := r.place
	see := p.look()
	switch {
	case see.stance == given:
		r.turn = take
	case see.stance == alone:
		r.alone()
	case r.once && see.stance == parked && r.answeredBy(see):
		r.turn = end
	case see.stance == claimed, !see.first, !see.held.IsZero() && r.end.Sub(r.at) <= askRoom:
		r.pause(ctx, p.call, r.end)
	case r.tries > 0 && r.heldBy != nil && r.due.IsZero():
		r.beTold(ctx)
		r.due = time.Now()
	case r.at.Before(r.askAt()):
		if r.pause(ctx, p.call, r.due) && r.tries > 0 {
			r.due = time.Now() // this process gave the key back
		}
	case p.rise():
		r.turn = ask
	}
}

// askAt is when the first of a line asks if nothing happens before. Who has not asked yet
// and stands behind a holder of this process waits to be handed the lock. It asks, and so
// gets into the store's line, when no hand-over is to come: the fair release at the end of
// a streak has to find it there.
func (r *request) askAt() time.Time {
	if r.tries > 0 {
		return r.due
	}
	holder, _ := r.chain.gw.locks.holder(r.key, r.hash, r.at)
	if holder == nil || holder.grant.RequestID == r.id { // the same request, asked twice at once
		return r.at
	}
	if r.due.IsZero() {
		r.due = r.at.Add(jitter(askAgain))
	}
	if last := holder.streak.end(holder.grant.AcquiredAt); last.Before(r.due) {
		r.due = last
	}
	return r.due
}

// beTold waits until whoever answered "held" says that another try is worth while.
func (r *request) beTold(ctx context.Context) {
	until, cancel := context.WithDeadline(ctx, r.end)
	defer cancel()
	if r.place != nil {
		if !r.place.sleeps(cancel) {
			return
		}
		defer r.place.sleeps(nil)
	}
	_ = r.heldBy.Wait(until, r.hold(r.ttl), r.held)
}

// pause sleeps until then, or the end of the wait; told says that call woke it before.
func (r *request) pause(ctx context.Context, call <-chan struct{}, until time.Time) (told bool) {
	if r.end.Before(until) {
		until = r.end
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-call:
		return true
	}
	return false
}

// over is the verdict of a wait that has ended, or whose caller has gone.
func (r *request) over() (*Lock, *tierlock.Error) {
	if l, _ := r.chain.replay(r); l != nil {
		return l, nil // the same request, asked twice at once, has got it meanwhile
	}
	switch held := r.knownHeld(); {
	case held != nil:
		held.Err = r.gone
		return nil, held
	case r.gone != nil:
		return nil, r.because(tierlock.ReasonCanceled, r.gone)
	case r.coalesced:
		return nil, r.because(tierlock.ReasonSaturated, nil) // its turn never came
	}
	return nil, r.because(tierlock.ReasonAttempt, nil)
}

// ended is the verdict of a call that was answered with err.
func (r *request) ended(err *tierlock.Error) *tierlock.Error {
	held := r.knownHeld()
	if held == nil {
		return err
	}
	held.Err = err.Err // not err: an answer must not match two outcomes
	return held
}

// knownHeld is the call's last answer "held", or that of the line it stands in.
func (r *request) knownHeld() *tierlock.Error {
	if r.lastHeld != nil || r.place == nil {
		return r.lastHeld
	}
	if see := r.place.look(); see.held.IsZero() || r.once && !r.answeredBy(see) {
		return nil
	}
	now, ans := time.Now(), tierlock.Answer{Status: tierlock.Held}
	if until, ok := r.chain.gw.locks.shared(r.key, r.hash, now); ok {
		ans.Remaining = until.Sub(now)
	}
	return r.wasHeld(now, ans, nil)
}

// storeFailed tells whether err is the store's and no waste of the others' time: they are
// to meet it themselves, and at once. A call that ended by its own ctx, or that had no
// time for a whole attempt, says nothing of the store. Where the wire is full and they go
// one at a time, they go on doing so.
func (r *request) storeFailed(err *tierlock.Error) bool {
	if r.coalesced && err.Outcome == tierlock.Timeout {
		return false
	}
	switch err.Reason {
	case tierlock.ReasonCanceled, tierlock.ReasonLate:
		return false
	case tierlock.ReasonAttempt:
		return r.end.Sub(r.at) >= r.policy.Attempt
	}
	return true
}
