package degrade_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

var seedFlag = flag.Uint64("seed", 0, "replay the random walk with this seed; 0 draws new ones")

// TestRandomWalk drives machines over random health and holds them to what must be true
// whatever happens. A failure prints the seed that replays it.
func TestRandomWalk(t *testing.T) {
	if *seedFlag != 0 {
		newWalk(t, *seedFlag).run(2000)
		return
	}
	for range 200 {
		newWalk(t, rand.Uint64()|1).run(500)
	}
}

// walk is one machine on its way, and a model of what it has been told since it entered
// its state, kept apart from the machine's own.
type walk struct {
	*testing.T
	left  time.Time      // when Saturated was last left for Normal
	stay  time.Time      // until when it may not be left again
	eased bool           // saturated, and the wire has been free for two seconds since
	order *degrade.Order // that lies over it all, for a while
	seed  uint64
	rnd   *rand.Rand
	p     degrade.Policy
	m     degrade.Machine
	s     degrade.Signals
	since []degrade.Signals // looks since, and with, the last edge
}

func newWalk(t *testing.T, seed uint64) *walk {
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := degrade.Weak()
	if rnd.IntN(2) == 0 {
		p = degrade.Strong()
		p.VersionGuard = rnd.IntN(2) == 0
	}
	s := degrade.Signals{At: epoch}
	p.Observe = rnd.IntN(8) == 0
	if p.Class == degrade.ClassWeak {
		p.OnSaturated = []degrade.Fallback{degrade.FallbackLocal, degrade.FallbackCoalesce, degrade.FallbackFail}[rnd.IntN(3)]
	}
	return &walk{T: t, seed: seed, rnd: rnd, p: p, m: degrade.Start(epoch), s: s, since: []degrade.Signals{s}}
}

func (w *walk) run(looks int) {
	for range looks {
		w.change()
		w.look()
	}
	w.heals()
	w.relapses()
	for range looks / 10 {
		w.change()
		w.look()
	}
	w.heals()
}

// relapses fills a healthy target's wire, frees it, and fills it again, which chance alone
// hardly ever does within a minute and without a fault between.
func (w *walk) relapses() {
	for range 3 * 26 {
		full := 1.0
		if n := len(w.since); w.m.State == degrade.Saturated && n < 15+w.rnd.IntN(10) {
			full = .7
		}
		w.s.At = w.s.At.Add(200 * time.Millisecond)
		w.s.Occupancy, w.s.WeakOccupancy = full, full
		w.look()
	}
}

// change makes one thing happen to the target, or only lets time pass.
func (w *walk) change() {
	s, r := &w.s, w.rnd
	s.At = s.At.Add(time.Duration(1+r.IntN(300)) * time.Millisecond)
	if s.Unanswered > 0 {
		s.Unanswered += 100 * time.Millisecond
	}
	switch r.IntN(40) {
	case 0:
		s.Refused, s.Probes, s.FastProbes = true, 0, 0
	case 1:
		s.Failures, s.Probes, s.FastProbes = s.Failures+1+r.IntN(3), 0, 0
	case 2:
		s.ProbeFailed, s.Probes, s.FastProbes, s.Unanswered = true, 0, 0, 0
	case 3:
		s.Unanswered = max(s.Unanswered, 1)
	case 4:
		s.Open = true
	case 5:
		s.Timeouts = r.IntN(10)
	case 6, 7, 8:
		s.Timeouts = 0
	case 9, 10, 11:
		s.Occupancy = r.Float64() * 1.2
		s.WeakOccupancy = max(s.Occupancy, r.Float64())
	case 12, 13:
		s.Occupancy, s.WeakOccupancy = 1, 1
	case 14:
		s.Occupancy, s.WeakOccupancy = 0, 0
	case 15, 16, 17, 18:
		w.probed(r.IntN(3) > 0)
	case 19:
		w.order = &degrade.Order{
			Mode: tierlock.Mode(1 + r.IntN(6)), Until: s.At.Add(time.Duration(r.IntN(5000)) * time.Millisecond), Percent: uint8(r.IntN(101)),
		}
	}
}

// probed is an answered probe: it wipes what had failed.
func (w *walk) probed(fast bool) {
	s := &w.s
	s.Refused, s.ProbeFailed, s.Open, s.Failures, s.Unanswered = false, false, false, 0, 0
	s.Probes++
	if s.FastProbes++; !fast {
		s.FastProbes = 0
	}
}

// look takes one step and checks it.
func (w *walk) look() {
	was := w.m
	next, edge, moved := was.Step(&w.p, w.s)
	w.m = next
	w.since = append(w.since, w.s)
	if !moved {
		w.check(next.State == was.State && next.Epoch == was.Epoch && next.Since.Equal(was.Since), "moved without an edge")
		w.check(was.State == degrade.Down || !w.faulty(), "%v stays in spite of a definite fault", was.State)
	} else {
		w.check(edge.From == was.State && edge.To == next.State && edge.From != edge.To, "edge %+v from %v to %v", edge, was.State, next.State)
		w.check(edge.Epoch == was.Epoch+1 && next.Epoch == edge.Epoch, "epoch %d after %d", edge.Epoch, was.Epoch)
		w.check(edge.At.Equal(w.s.At) && next.Since.Equal(w.s.At), "edge at %v", edge.At)
		w.check(edge.Dwell == w.s.At.Sub(was.Since) && edge.Dwell == w.s.At.Sub(w.since[0].At), "dwell %v", edge.Dwell)
		w.check((edge.Reason == "") == (edge.To == degrade.Normal), "to %v for reason %q", edge.To, edge.Reason)
		w.earned(edge)
		w.since, w.eased = []degrade.Signals{w.s}, false
	}
	if w.m.State == degrade.Saturated && w.held(2*time.Second, func(o float64) bool { return o < .8 }) {
		w.eased = true
	}
	w.routed()
}

// earned checks that an edge had its cause for as long as it must.
func (w *walk) earned(e degrade.Transition) {
	dwell := e.At.Sub(w.since[0].At)
	if e.From == degrade.Saturated && e.To != degrade.Normal {
		w.stay = time.Time{}
	}
	switch {
	case e.To == degrade.Down:
		w.check(w.faulty(), "down without a fault")
	case e.To == degrade.Slow:
		w.check(e.From != degrade.Down && w.s.Timeouts >= 5 && !w.faulty(), "slow from %v with %+v", e.From, w.s)
	case e.To == degrade.Saturated:
		w.check(e.From == degrade.Normal && dwell >= 5*time.Second, "saturated from %v after %v", e.From, dwell)
		w.check(w.held(5*time.Second, func(o float64) bool { return o >= .95 }), "saturated with a sample under 95 %%")
		if !w.left.IsZero() && e.At.Sub(w.left) < time.Minute {
			w.stay = e.At.Add(time.Minute)
		}
	case e.To == degrade.Recovering:
		w.check(e.From == degrade.Down && w.s.Probes > 0, "recovering from %v with %d probes", e.From, w.s.Probes)
	case e.From == degrade.Saturated:
		w.check(dwell >= 2*time.Second && w.held(2*time.Second, func(o float64) bool { return o < .8 }), "relaxed after %v", dwell)
		w.check(!e.At.Before(w.stay), "left again %v too soon", w.stay.Sub(e.At))
		w.left, w.stay = e.At, time.Time{}
	case e.From == degrade.Slow:
		w.check(w.s.FastProbes >= 3 && w.fastSince() >= 3, "no longer slow after %d fast probes", w.fastSince())
	case e.From == degrade.Recovering:
		w.check(dwell >= 4*time.Second, "normal %v after recovering", dwell)
	default:
		w.check(false, "edge from %v to %v", e.From, e.To)
	}
}

// faulty says what a definite fault is, in the contract's words.
func (w *walk) faulty() bool {
	s := w.s
	return s.Refused || s.ProbeFailed || s.Open || s.Failures >= 5 || s.Unanswered >= time.Second
}

// held tells whether every sample of the last d meets the mark, and they reach back so far.
func (w *walk) held(d time.Duration, meets func(float64) bool) bool {
	for i := len(w.since) - 1; i > 0; i-- {
		o := w.since[i].Occupancy
		if w.p.Class == degrade.ClassWeak {
			o = w.since[i].WeakOccupancy
		}
		if !meets(o) {
			return false
		}
		if w.s.At.Sub(w.since[i].At) >= d {
			return true
		}
	}
	return false
}

// fastSince counts the fast probes in a row since the last edge.
func (w *walk) fastSince() (n int) {
	for i := 1; i < len(w.since); i++ {
		switch was, is := w.since[i-1].FastProbes, w.since[i].FastProbes; {
		case is > was:
			n++
		case is < was:
			n = 0
		}
	}
	return n
}

// routed checks that no chain is led where its class never goes, that an order lies over
// health until its end and changes nothing of it, and that a chain on observe stays.
func (w *walk) routed() {
	was, hash := w.m, w.rnd.Uint64()
	followed := w.p
	followed.Observe = false
	r := degrade.Decide(&followed, nil, &w.m, w.s.At, hash)
	w.led(r)
	if seen := degrade.Decide(&w.p, nil, &w.m, w.s.At, hash); w.p.Observe {
		w.check(seen.Tier == tierlock.Shared && seen.Admit == degrade.AdmitAll && seen.Verdict == tierlock.Verdict{}, "on observe: %+v", seen)
		w.check(seen.Observed == r.Reason && (r.Reason == "" || seen.Instead == r.Tier), "observed %+v instead of %+v", seen, r)
		r = seen
	}
	if ordered := degrade.Decide(&w.p, w.order, &w.m, w.s.At, hash); w.order != nil {
		covered := w.s.At.Before(w.order.Until) && w.order.Mode != tierlock.ModeAuto && (w.order.Percent == 0 || hash%100 < uint64(w.order.Percent))
		w.check(covered == (ordered.Reason == tierlock.ReasonForced), "order %+v at %v, hash %d: %+v", w.order, w.s.At, hash, ordered)
		w.check(covered || ordered == r, "an order that does not cover the key leads to %+v instead of %+v", ordered, r)
	}
	w.check(w.m == was, "looking for a route changed the machine")
}

// led checks where health leads.
func (w *walk) led(r degrade.Route) {
	strong := w.p.Class == degrade.ClassStrong
	switch r.Tier {
	case tierlock.Bypass:
		w.check(false, "bypass without an order")
	case tierlock.Local:
		w.check(!strong, "a strong chain on local")
		w.check(w.m.State == degrade.Down || w.m.State == degrade.Saturated && w.p.OnSaturated == degrade.FallbackLocal, "local while %v", w.m.State)
	case tierlock.Optimistic:
		w.check(!strong || w.p.VersionGuard, "a strong chain optimistic without a guard")
	}
	one := w.m.State == degrade.Saturated && w.p.OnSaturated == degrade.FallbackCoalesce
	w.check(one == (r.Admit == degrade.AdmitOne) && (!one || r.Tier == tierlock.Shared), "%+v while %v, on_saturated %v", r, w.m.State, w.p.OnSaturated)
	w.check((r.Verdict == tierlock.Verdict{}) == (r.Tier == tierlock.Shared || r.Tier == tierlock.Local), "route %+v", r)
	refuses := strong && !w.p.VersionGuard || !strong && w.p.OnSaturated == degrade.FallbackFail
	w.check((w.m.State == degrade.Recovering) == (r.Admit == degrade.AdmitRamp), "%+v while %v", r, w.m.State)
	w.check((w.eased && refuses) == (r.Admit == degrade.AdmitUnder), "%+v while %v, eased %v", r, w.m.State, w.eased)
	w.check(r.Admit != degrade.AdmitRamp && r.Admit != degrade.AdmitUnder || r.Share > 0 && r.Share <= 1, "share %v", r.Share)
}

// heals checks that ten seconds of health lead to Normal from anywhere, but from a relapse.
func (w *walk) heals() {
	for i := 0; i < 50 || w.s.At.Before(w.stay); i++ {
		w.s.At = w.s.At.Add(200 * time.Millisecond)
		w.s.Timeouts, w.s.Occupancy, w.s.WeakOccupancy = 0, 0, 0
		if i%3 == 0 {
			w.probed(true)
		}
		w.look()
	}
	w.check(w.m.State == degrade.Normal, "still %v after ten healthy seconds", w.m.State)
}

func (w *walk) check(ok bool, format string, args ...any) {
	w.Helper()
	if !ok {
		w.Logf("replay with -run TestRandomWalk -seed %d", w.seed)
		w.Fatalf(format, args...)
	}
}
