package gateway

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	settleAtOnce = 16                     // releases out at once: a store that comes back is not met by a herd
	settleIn     = 2 * time.Second        // for one answer: nobody waits for it, and a slow store takes long to greet a new connection
	settleFirst  = 100 * time.Millisecond // pause after a first missing answer, doubled ...
	settleLast   = 2 * time.Second        // ... up to this
	ledgerRoom   = 100_000                // entries; what finds no room is left to its ttl, and said so
)

// ledger remembers what has to be given back and was not answered: acquires in doubt, and
// releases that were put off. Each entry ends when one Release, sent after the acquire's
// NotAfter, is answered — that is the last word by the Backend contract — or when the
// lock's ttl after NotAfter has passed and the store has freed the key by itself.
type ledger struct {
	gw   *Gateway
	wake chan struct{} // buffered: the loop looks again
	idle chan struct{} // buffered: nothing is left

	mu      sync.Mutex
	entries map[owner]*entry // guarded by mu
	due     queue[*entry]    // those that are not out; guarded by mu
	out     int              // releases under way; guarded by mu
	full    atomic.Int64     // entries that found no room
}

// owner is what the store knows a lock by.
type owner struct {
	key tierlock.Key
	id  tierlock.RequestID
}

// entry is one thing to give back.
type entry struct {
	chain    *Chain
	target   *target
	hold     tierlock.Hold
	added    time.Time
	notAfter time.Time     // a Release sent before says nothing
	giveUp   time.Time     // the store has freed the key by then
	pause    time.Duration // before the next try
	slot     slot
	answered chan struct{} // closed when the release that is out has ended; nil: none is out
}

func (e *entry) place() *slot { return &e.slot }

// inDoubt is the entry of an acquire without an answer.
func (c *Chain) inDoubt(r *request, notAfter time.Time) *entry {
	return &entry{
		chain: c, target: r.ladder.target, hold: r.hold(r.ttl), added: time.Now(),
		notAfter: notAfter, giveUp: notAfter.Add(r.ttl), pause: settleFirst,
	}
}

// putOff is the entry of a lock that is given back behind its holder.
func (c *Chain) putOff(l *Lock) *entry {
	now := time.Now()
	return &entry{
		chain: c, target: l.ladder.target, hold: l.hold(), added: now,
		notAfter: now, giveUp: now.Add(l.ttl), pause: settleFirst,
	}
}

// add puts e in. It is tried as soon as its NotAfter has passed.
func (g *ledger) add(e *entry) {
	g.mu.Lock()
	room := len(g.entries) < ledgerRoom
	if room {
		who := owner{e.hold.Key, e.hold.ID}
		if old := g.entries[who]; old != nil { // one acquisition, asked for again: the later times count
			g.due.drop(old)
			e.notAfter, e.giveUp = later(e.notAfter, old.notAfter), later(e.giveUp, old.giveUp)
		}
		g.entries[who] = e
		g.due.set(e, e.notAfter)
	}
	g.mu.Unlock()
	if !room {
		g.full.Add(1)
		g.gw.log.Error("ledger full: a lock in doubt is left to its ttl", "chain", e.chain.name, "key", e.hold.Key.String())
		return
	}
	poke(g.wake)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// run settles what is due, at most settleAtOnce at a time, until ctx ends; it returns when
// all it started has.
func (g *ledger) run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := g.dispatch(func(e *entry) { work.Go(func() { g.settle(ctx, e) }) })
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		case <-timer.C:
		}
	}
}

// dispatch starts what is due, and tells how long nothing will be.
func (g *ledger) dispatch(start func(*entry)) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.out < settleAtOnce {
		e, ok := g.due.first()
		if !ok {
			break
		}
		if wait := time.Until(e.slot.due); wait > 0 {
			return wait
		}
		g.due.drop(e)
		g.out++
		e.answered = make(chan struct{})
		start(e)
	}
	return time.Hour // whatever comes, pokes
}

// settle sends one Release.
func (g *ledger) settle(ctx context.Context, e *entry) {
	pass := e.target.sensor.Count()
	sent := time.Now()
	ans, err := e.target.store.Release(tierlock.Until(ctx, sent.Add(settleIn)), e.hold)
	pass.Exit(err)

	now := time.Now()
	over := err == nil || !now.Before(e.giveUp)
	g.mu.Lock()
	g.out--
	close(e.answered)
	e.answered = nil
	who := owner{e.hold.Key, e.hold.ID}
	current := g.entries[who] == e
	switch {
	case over && current:
		delete(g.entries, who)
	case current:
		g.due.set(e, now.Add(jitter(e.pause)))
		e.pause = min(2*e.pause, settleLast)
	}
	empty := len(g.entries) == 0
	g.mu.Unlock()

	poke(g.wake)
	if empty {
		poke(g.idle)
	}
	if over && current {
		if err != nil {
			g.gw.log.LogAttrs(ctx, slog.LevelWarn, "lock in doubt left to its ttl", slog.String("chain", e.chain.name), slog.String("key", e.hold.Key.String()))
		}
		tell(g.gw.hooks.Settled, SettleInfo{Chain: e.chain.name, Status: ans.Status, After: now.Sub(e.added)})
	}
}

// hurry makes everything of t due at once: its store has just answered a probe.
func (g *ledger) hurry(t *target) {
	now := time.Now()
	g.mu.Lock()
	for _, e := range g.entries {
		if e.target == t && e.slot.index != 0 && e.slot.due.After(now) && now.After(e.notAfter) {
			e.pause = settleFirst
			g.due.set(e, now)
		}
	}
	g.mu.Unlock()
	poke(g.wake)
}

// take takes the entry of (key, id) out, so that a repeated request may try again without
// its new lock being given back behind it. If a release of it is out, take returns the
// channel that is closed when it has ended.
func (g *ledger) take(key tierlock.Key, id tierlock.RequestID) (e *entry, busy <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e = g.entries[owner{key, id}]
	switch {
	case e == nil:
		return nil, nil
	case e.answered != nil:
		return nil, e.answered
	}
	delete(g.entries, owner{key, id})
	g.due.drop(e)
	return e, nil
}

// len is how many entries are open.
func (g *ledger) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.entries)
}

// drained waits until nothing is open, or ctx ends.
func (g *ledger) drained(ctx context.Context) error {
	for g.len() > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.idle:
		}
	}
	return nil
}

// takeDebt takes over what the ledger still has to give back under the request's own id.
// Without it the retry of a call that lost its reply would get its lock, and the ledger
// would then give that very lock back under it.
func (c *Chain) takeDebt(ctx context.Context, r *request, deadline time.Time) *tierlock.Error {
	for {
		e, busy := c.gw.ledger.take(r.key, r.id)
		if busy == nil {
			r.debt = e
			return nil
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-busy:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return r.because(tierlock.ReasonCanceled, context.Cause(ctx))
		case <-timer.C:
			return r.because(tierlock.ReasonAttempt, nil)
		}
	}
}

// payDebt gives the ledger back what the request took over and did not settle by a grant.
func (c *Chain) payDebt(r *request) {
	if r.debt != nil {
		c.gw.ledger.add(r.debt)
		r.debt = nil
	}
}

// poke wakes a loop that looks at everything when it wakes.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// jitter spreads d by a quarter to either side.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
