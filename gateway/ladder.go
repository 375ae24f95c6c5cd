package gateway

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/breaker"
	"github.com/tierlock/tierlock/degrade"
)

// senseEvery is how often a ladder looks at its sensor for what only time can tell: a
// full wire that stays full, probes that stay unanswered, a ramp that rises.
const senseEvery = 100 * time.Millisecond

// ladder is where one chain stands with one target: the machine sits behind a pointer, so
// that a request reads it without a lock.
type ladder struct {
	chain  *Chain
	target *target
	now    atomic.Pointer[degrade.Machine]
	wire   breaker.Tally // what this chain has out on the target

	mu    sync.Mutex // held to step, never over I/O or a hook
	edges teller[degrade.Transition]
	past  past[degrade.Transition] // the last edges; guarded by mu
}

// ladderOf returns the ladder that key's requests stand on, and makes it the first time.
func (c *Chain) ladderOf(key tierlock.Key) *ladder {
	name := c.store.targetOf(key)
	c.mu.RLock()
	l := c.ladders[name]
	c.mu.RUnlock()
	if l != nil {
		return l
	}
	t := c.store.target(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if l = c.ladders[name]; l != nil {
		return l
	}
	l = &ladder{chain: c, target: t}
	m := degrade.Start(time.Now())
	l.now.Store(&m)
	c.ladders[name] = l
	t.mu.Lock()
	t.ladders = append(t.ladders, l)
	t.mu.Unlock()
	return l
}

// step feeds the machine what the sensor reads now.
func (l *ladder) step() {
	l.mu.Lock()
	at := time.Now() // under mu: a machine's time never runs back
	seen := signals(l.target.sensor.Read(at), at)
	m, edge, changed := l.now.Load().Step(&l.chain.current.Load().Ladder, seen)
	l.now.Store(&m)
	if changed {
		l.edges.put(edge)
		l.past.add(edge)
	}
	l.mu.Unlock()
	if sensed := l.chain.gw.hooks.Sensed; sensed != nil {
		tell(l.chain.gw, "sensed", sensed, SenseInfo{Chain: l.chain.name, Target: l.target.name, Signals: explainSignals(seen), At: at})
	}
	if changed {
		l.edges.tell(l.tell)
	}
}

// tell tells an edge to the log, the trail and the hook.
func (l *ladder) tell(edge degrade.Transition) {
	l.log(edge)
	l.chain.gw.news.Stepped(audit.Step{
		At: edge.At, Chain: l.chain.name, Target: l.target.name, From: edge.From.String(), To: edge.To.String(),
		Reason: edge.Reason, Dwell: edge.Dwell, Epoch: edge.Epoch, Observed: l.chain.policy.Ladder.Observe,
	})
	tell(l.chain.gw, "stepped", l.chain.gw.hooks.Stepped, StepInfo{Chain: l.chain.name, Target: l.target.name, Transition: edge})
}

// count notes an operation that is never refused and begins now.
func (l *ladder) count(now time.Time) breaker.Pass { return l.target.sensor.Count(l.ask(now)) }

// ask is an operation of the chain, which begins now, as its sensor sees it.
func (l *ladder) ask(now time.Time) breaker.Ask {
	return breaker.Ask{Now: now, Strong: l.chain.policy.Ladder.Class == degrade.ClassStrong, Tally: &l.wire}
}

// log writes an edge down. A store without parts has no target to name, and a reason that
// is the new state's own word, or none, tells nothing more. A full wire names the chain that
// has most of it out.
func (l *ladder) log(edge degrade.Transition) {
	level := slog.LevelInfo
	if edge.To == degrade.Down {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("chain", l.chain.name), slog.String("store", l.target.store.name)}
	if l.target.name != "" {
		attrs = append(attrs, slog.String("target", l.target.name))
	}
	from, to, reason := edge.From.String(), edge.To.String(), string(edge.Reason)
	attrs = append(attrs, slog.String("from", from), slog.String("to", to), slog.Duration("after", edge.Dwell))
	if reason != "" && reason != to {
		attrs = append(attrs, slog.String("reason", reason))
	}
	if edge.To == degrade.Saturated {
		chain, out := l.target.busiest()
		attrs = append(attrs, slog.String("busiest", chain), slog.Int("busiest_out", out),
			slog.Int("out", l.target.sensor.Out()), slog.Int("limit", l.target.sensor.Limit()))
	}
	if l.chain.policy.Ladder.Observe {
		attrs = append(attrs, slog.Bool("observed", true))
	}
	l.chain.gw.log.LogAttrs(context.Background(), level, "health changed", attrs...)
}

// signals is a sensor's reading in the words of the machine.
func signals(r breaker.Reading, at time.Time) degrade.Signals {
	return degrade.Signals{
		At: at, Occupancy: r.Occupancy, WeakOccupancy: r.WeakOccupancy, Timeouts: r.Timeouts, Failures: r.Failures,
		Refused: r.Refused, Open: r.Open, ProbeFailed: r.ProbeFailed, Unanswered: r.Unanswered,
		Probes: r.Probes, FastProbes: r.FastProbes,
	}
}

// down tells that the store is not to be asked now.
func (l *ladder) down() bool { return l.now.Load().State == degrade.Down }

// sense is the loop that looks at every ladder: it keeps the sensors probing while a
// machine is not normal, lets orders end, and reads the stores' clocks once a second.
func (g *Gateway) sense(ctx context.Context) {
	tick := time.NewTicker(senseEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		for _, c := range g.chains {
			c.sense(time.Now())
		}
		if n%int(time.Second/senseEvery) == 0 {
			for _, s := range g.stores {
				s.refresh()
				s.remember(time.Now())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sense looks at the chain's ladders and at its order.
func (c *Chain) sense(now time.Time) {
	healthy := true
	for _, l := range c.standing() {
		l.step()
		if l.now.Load().State != degrade.Normal {
			healthy = false
			l.target.sensor.Worry()
		}
	}
	c.mindOrder(now, healthy)
	c.mindRehearsal(now)
}

// standing is a copy of the chain's ladders.
func (c *Chain) standing() []*ladder {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.ladders))
}
