package gateway

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	settleIn    = 2 * time.Second        // for one answer: nobody waits for it, and a slow store takes long to greet a new connection
	settleFirst = 100 * time.Millisecond // pause after a first missing answer, doubled ...
	settleLast  = 2 * time.Second        // ... up to this
	ledgerRoom  = 100_000                // entries; what finds no room is left to its ttl, and said so
)

// errNotAsked is why a release was not answered that was not sent.
var errNotAsked = errors.New("gateway: store is down, not asked")

// ledger remembers what has to be given back and was not answered: acquires in doubt, and
// releases that were put off. Each entry ends when one Release, sent after the acquire's
// NotAfter, is answered — that is the last word by the Backend contract — or when the
// lock's ttl after NotAfter has passed and the store has freed the key by itself.
//
// When a store comes back, what was sent before may hang for as long as its deadline, on a
// connection that nobody answers any more. So each entry is then sent once more, at once
// and on another connection, beside what hangs.
type ledger struct {
	gw   *Gateway
	wake chan struct{} // buffered: the loop looks again
	idle chan struct{} // buffered: nothing is left

	mu      sync.Mutex
	room    int              // for entries
	entries map[owner]*entry // guarded by mu
	due     queue[*entry]    // those that wait to be sent, or sent again; guarded by mu
	out     int              // releases of this round under way; guarded by mu
	width   width            // how many may be; guarded by mu
	round   int              // hurries so far; guarded by mu
	full    atomic.Int64     // entries that found no room
}

// owner is what the store knows an entry into a lock by.
type owner struct {
	key   tierlock.Key
	id    tierlock.RequestID
	entry uint64
}

func ownerOf(h tierlock.Hold) owner { return owner{h.Key, h.ID, h.Entry} }

// entry is one thing to give back. Once it is in the ledger, the ledger's mutex guards it.
type entry struct {
	chain    *Chain
	ladder   *ladder
	hold     tierlock.Hold
	added    time.Time
	notAfter time.Time     // a Release sent before says nothing
	giveUp   time.Time     // the store has freed the key by then
	pause    time.Duration // before the next try
	slot     slot
	out      int           // releases under way
	answered chan struct{} // closed when none is out any more; nil: none is
	over     bool          // settled; it stays until nothing of it is out
}

func (e *entry) place() *slot { return &e.slot }

// inDoubt is the entry of an acquire without an answer.
func (c *Chain) inDoubt(r *request, notAfter time.Time) *entry {
	e := c.entryOf(r.ladder, r.hold(r.ttl), notAfter)
	if r.entry != 0 { // the lock it would be in goes on
		e.giveUp = e.giveUp.Add(c.policy.MaxHold)
	}
	return e
}

// entryOf is the entry of a hold that the store may have granted until notAfter.
func (c *Chain) entryOf(l *ladder, hold tierlock.Hold, notAfter time.Time) *entry {
	return &entry{
		chain: c, ladder: l, hold: hold, added: time.Now(),
		notAfter: notAfter, giveUp: notAfter.Add(hold.TTL), pause: settleFirst,
	}
}

// putOff is the entry of a lock that is given back behind its holder.
func (c *Chain) putOff(l *Lock) *entry {
	now := time.Now()
	return &entry{
		chain: c, ladder: l.ladder, hold: l.hold(), added: now,
		notAfter: now, giveUp: l.storeFrees(now), pause: settleFirst,
	}
}

// add puts e in. It is tried as soon as its NotAfter has passed. One acquisition has one
// entry: asked for again, the later times count, and a Release that is out already, sent
// before them, is no last word any more.
func (g *ledger) add(e *entry) {
	who, room := ownerOf(e.hold), true
	g.mu.Lock()
	if old := g.entries[who]; old != nil {
		old.notAfter, old.giveUp = later(e.notAfter, old.notAfter), later(e.giveUp, old.giveUp)
		old.over = false
		g.due.set(old, old.notAfter)
	} else if room = len(g.entries) < g.room; room {
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

// run settles what is due, a few at a time, until ctx ends; it returns when
// all it started has.
func (g *ledger) run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := g.dispatch(func(e *entry, round int) { work.Go(func() { g.settle(ctx, e, round) }) })
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
func (g *ledger) dispatch(start func(e *entry, round int)) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.out < g.width.now() {
		e, ok := g.due.first()
		if !ok {
			break
		}
		if wait := time.Until(e.slot.due); wait > 0 {
			return wait
		}
		g.due.drop(e)
		g.out++
		if e.out++; e.out == 1 {
			e.answered = make(chan struct{})
		}
		start(e, g.round)
	}
	return time.Hour // whatever comes, pokes
}

// settle sends one Release.
func (g *ledger) settle(ctx context.Context, e *entry, round int) {
	sent := time.Now()
	ans, err := e.release(ctx, sent)
	now := time.Now()
	over, empty := g.settled(e, round, sent, now, err)
	poke(g.wake)
	if empty {
		poke(g.idle)
	}
	if over {
		if err != nil {
			g.gw.log.LogAttrs(ctx, slog.LevelWarn, "lock in doubt left to its ttl", slog.String("chain", e.chain.name), slog.String("key", e.hold.Key.String()))
		}
		tell(g.gw, "settled", g.gw.hooks.Settled, SettleInfo{Chain: e.chain.name, Status: ans.Status, After: now.Sub(e.added)})
	}
}

// release asks the store, unless that is known to be down: probes ask it already, and each
// release on top would be one more connection to it.
func (e *entry) release(ctx context.Context, now time.Time) (tierlock.Answer, error) {
	if e.ladder.down() {
		return tierlock.Answer{}, errNotAsked
	}
	pass := e.ladder.count(now)
	ans, err := e.ladder.target.store.Release(tierlock.Until(ctx, now.Add(settleIn)), e.hold)
	pass.Exit(err)
	return ans, err
}

// settled takes in how a Release that was sent then has ended. over tells that it has
// settled e, empty that it was the last thing open.
func (g *ledger) settled(e *entry, round int, sent, now time.Time, err error) (over, empty bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if round == g.round {
		g.out--
		g.width.learn(now.Sub(sent), err)
	}
	if e.out--; e.out == 0 {
		close(e.answered)
		e.answered = nil
	}
	switch {
	case e.over: // by another Release of it
	case err == nil && !sent.Before(e.notAfter), !now.Before(e.giveUp):
		over, e.over = true, true
		g.due.drop(e)
	case e.slot.index == 0:
		g.due.set(e, now.Add(jitter(e.pause)))
		e.pause = min(2*e.pause, settleLast)
	}
	// Not before: a retry of the same request must not get the lock while a Release of it
	// is on its way.
	if e.over && e.out == 0 {
		delete(g.entries, ownerOf(e.hold))
	}
	return over, len(g.entries) == 0
}

// hurry makes everything of t due at once: its store has just answered a probe. What is
// out may hang, so it is sent again, and counts no more.
func (g *ledger) hurry(t *target) {
	now := time.Now()
	g.mu.Lock()
	g.round++
	g.out, g.width = 0, width{}
	for _, e := range g.entries {
		waits := e.slot.index == 0 || e.slot.due.After(now)
		if e.ladder.target == t && !e.over && waits && now.After(e.notAfter) {
			e.pause = settleFirst
			g.due.set(e, now)
		}
	}
	g.mu.Unlock()
	poke(g.wake)
}

// take takes the entry of who out, so that a repeated request may try again without
// its new lock being given back behind it. If a release of it is out, take returns the
// channel that is closed when it has ended.
func (g *ledger) take(who owner) (e *entry, busy <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e = g.entries[who]
	switch {
	case e == nil:
		return nil, nil
	case e.answered != nil:
		return nil, e.answered
	}
	delete(g.entries, who)
	g.due.drop(e)
	return e, nil
}

// has tells whether something of who is still to be given back.
func (g *ledger) has(who owner) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entries[who] != nil
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
