//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/switchcfg"
)

// story is one run, from the first request to the last row of the report.
type story struct {
	*scene
	options  options
	view     *view
	start    time.Time
	shop     *shop
	in       []*instance
	load     *load
	replay   *replay // nil: no trace
	flips    *flips
	orphans  *orphans
	operator operator
	version  uint64 // of the last switch document

	mu  sync.Mutex
	now string // the part that is being told; guarded by mu
}

// tell runs the whole story and reports what it came to. An error means that it could not
// be told, not that it went badly: that is the report's to say.
func tell(ctx context.Context, o options, t Timetable, seams Seams, v *view, log *slog.Logger) (r *Report, err error) {
	s := &story{options: o, view: v, start: time.Now()}
	s.scene = &scene{timetable: t, seams: seams, oracle: newOracle(s.start), ledger: newLedger(order.Chain, coupon.Chain), log: log}
	s.flips = newFlips(s.start, v.flip)
	s.nudge = s.flips.nudge
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.introduce()

	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { s.flips.run(watching) })
	watchers.Go(func() { s.orphans.run(watching) })
	watchers.Go(func() { s.showBoard(watching) })
	defer watchers.Wait()
	defer stop()
	if err := s.play(ctx); err != nil {
		return nil, err
	}
	r, err = s.reckon(ctx, func() { stop(); watchers.Wait() })
	return r, err
}

// open starts the servers, the shop's tables and both instances.
func (s *story) open(ctx context.Context) (err error) {
	if s.servers, err = setStage(ctx, s.options, s.log); err != nil {
		return err
	}
	if s.shop, err = openShop(ctx, s.servers.db, s.servers.dialect, s.servers.tables); err != nil {
		return err
	}
	s.operator = operator{file: s.servers.switchFile(), nacos: s.servers.nacos, dataID: s.servers.dataID}
	s.orphans = &orphans{}
	for _, name := range []string{"shop-1", "shop-2"} {
		in, err := s.scene.open(ctx, name)
		if err != nil {
			return err
		}
		s.in = append(s.in, in)
		s.orphans.asked = append(s.orphans.asked, in.asked)
	}
	s.flips.instances = s.in
	s.load = &load{scene: s.scene, shop: s.shop, instances: s.in}
	if s.options.trace != "" {
		if s.replay, err = openReplay(s.options.trace, s.options.window, s.load); err != nil {
			return err
		}
	}
	s.orphans.peek, err = openPeek(ctx, s.servers.redis)
	return err
}

// close ends whatever still runs.
func (s *story) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var errs []error
	for _, in := range s.in {
		errs = append(errs, in.close(ctx))
	}
	if s.replay != nil {
		errs = append(errs, s.replay.close())
	}
	if s.orphans != nil && s.orphans.peek != nil {
		s.orphans.peek.close()
	}
	if s.servers != nil {
		errs = append(errs, s.operator.forget(ctx), s.servers.close(ctx))
	}
	return errors.Join(errs...)
}

// play tells the parts in their order, as many rounds of them as a trace is long.
func (s *story) play(ctx context.Context) error {
	if err := s.load.start(ctx, s.replay == nil); err != nil {
		return err
	}
	defer s.load.halt()
	rounds := 1
	if s.replay != nil {
		s.replay.start(ctx)
		defer s.replay.halt()
		rounds = max(1, int(s.replay.length/s.timetable.round()))
	}
	for n := 1; n <= rounds; n++ {
		if rounds > 1 {
			s.view.say("\nround %d of %d", n, rounds)
		}
		if err := s.round(ctx, n); err != nil {
			return err
		}
	}
	if s.replay == nil {
		return nil
	}
	err := s.replay.wait()
	s.view.say("%s", s.replay.summary())
	return err
}

// round is the story proper.
func (s *story) round(ctx context.Context, n int) error {
	sl := &sleeper{load: s.load, sku: fmt.Sprintf("stale-%d", n)}
	defer sl.wake(context.WithoutCancel(ctx))
	for _, part := range []func(context.Context, *sleeper) error{
		s.normal, s.slow, s.saturated, s.relief, s.down, s.bypassed, s.back,
	} {
		if err := part(ctx, sl); err != nil {
			return err
		}
	}
	s.load.staleTried.Add(int64(sl.tried))
	s.load.staleRefused.Add(int64(sl.refused))
	return nil
}

func (s *story) normal(ctx context.Context, _ *sleeper) error {
	t := &s.timetable
	s.part("normal", "both chains take the real lock; who comes second is told so")
	was := s.ledger.tierCounts()
	return s.spend(ctx, t.Normal, func() bool { return s.ledger.tierCounts().Shared > was.Shared })
}

func (s *story) slow(ctx context.Context, _ *sleeper) error {
	t := &s.timetable
	s.part("slow", fmt.Sprintf("replies come %v late: answers within the attempt, work goes on by version", t.SlowBy))
	was := s.ledger.tierCounts()
	s.servers.proxy.Delay(t.SlowBy)
	return s.spend(ctx, t.Slow, func() bool { return s.ledger.tierCounts().Optimistic > was.Optimistic })
}

func (s *story) saturated(ctx context.Context, _ *sleeper) error {
	t := &s.timetable
	s.part("saturated", fmt.Sprintf("replies take %v: the wire of %d fills, and after %v the weak chain steps down", t.FillBy, t.Wire, t.SaturateIn))
	s.servers.proxy.Delay(0)
	began := time.Now()
	s.until(ctx, t.Slack, s.flips.settled) // slow would win over saturated
	was := s.ledger.tierCounts()
	s.load.rush(true, true)
	defer s.load.rush(false, false)
	s.servers.proxy.Delay(t.FillBy)
	return s.spend(ctx, t.Saturated-time.Since(began), func() bool { return s.ledger.tierCounts().Local > was.Local })
}

// relief lets the store be well and customers hold their breath for a moment, so that the
// sleeper can take its lock.
func (s *story) relief(ctx context.Context, sl *sleeper) error {
	t := &s.timetable
	s.part("relief", "the store is well for a moment; one holder takes a lock of "+t.StaleTTL.String()+" and falls asleep")
	s.servers.proxy.Delay(0)
	began := time.Now()
	s.load.calm.Store(true)
	defer s.load.calm.Store(false)
	s.until(ctx, t.Relief+t.Slack, s.flips.settled)
	for {
		err := sl.take(ctx, s.in[0])
		if err == nil {
			break
		}
		if time.Since(began) > t.Relief+2*t.Slack || ctx.Err() != nil {
			if s.replay != nil && ctx.Err() == nil { // a trace does not hold its breath; another round will do
				s.view.say("the store stayed slow: nobody oversleeps in this round (%v)", err)
				break
			}
			return fmt.Errorf("the holder that is to oversleep got no lock: %w", err)
		}
		pause(ctx, 50*time.Millisecond)
	}
	return s.spend(ctx, t.Relief-time.Since(began), nil)
}

func (s *story) down(ctx context.Context, sl *sleeper) error {
	t := &s.timetable
	s.part("down", "the connection is cut: coupons on the local lock, orders by version; the sleeper wakes up and writes")
	began, was := time.Now(), s.ledger.tierCounts()
	s.servers.proxy.Cut()
	if sl.asleep() {
		if err := sl.oversleep(ctx); err != nil {
			return err
		}
		if err := s.overtake(ctx, sl, false); err != nil {
			return err
		}
		if err := sl.writeOldVersion(ctx, s.in[0]); err != nil {
			return err
		}
	}
	return s.spend(ctx, t.Down-time.Since(began), func() bool { return s.ledger.tierCounts().Local > was.Local })
}

// bypassed is the operator's switch. The store comes back while it lies.
func (s *story) bypassed(ctx context.Context, _ *sleeper) error {
	t := &s.timetable
	s.part("switch", fmt.Sprintf("an operator lets coupons through without a lock, for %v; after %v the store is back", t.Switch, t.StillDown))
	began, was := time.Now(), s.ledger.tierCounts()
	until := began.Add(t.Switch)
	s.load.rush(false, true)
	defer s.load.rush(false, false)
	if err := s.order(ctx, until); err != nil {
		return err
	}
	if err := s.spend(ctx, t.StillDown, nil); err != nil {
		return err
	}
	if err := s.servers.proxy.Restore(); err != nil {
		return err
	}
	err := s.spend(ctx, time.Until(until), nil)
	for err == nil && s.ledger.tierCounts().Bypass-was.Bypass < t.Bypasses {
		until = time.Now().Add(t.Switch)
		if err = s.order(ctx, until); err == nil {
			err = s.spend(ctx, time.Until(until), nil)
		}
	}
	if s.ledger.tierCounts().Bypass == was.Bypass {
		s.view.say("the switch reached nobody in time")
	}
	return err
}

// order publishes a bypass of coupons.
func (s *story) order(ctx context.Context, until time.Time) error {
	s.version++
	return s.operator.push(ctx, switchcfg.Document{Version: s.version, Chains: map[string]switchcfg.Directive{
		coupon.Chain: bypassUntil(until),
	}})
}

func (s *story) back(ctx context.Context, sl *sleeper) error {
	t := &s.timetable
	s.part("back", "the switch has ended by itself: everything on the real lock; the sleeper tries its old token")
	began := time.Now()
	s.until(ctx, t.Back+t.Slack, s.flips.settled)
	if sl.asleep() {
		err := s.overtake(ctx, sl, true)
		switch {
		case err == nil:
			err = sl.writeOldToken(ctx, s.in[0])
		case s.replay != nil && ctx.Err() == nil: // as in relief: another round will do
			s.view.say("the store stayed slow: nobody outbids the old token in this round (%v)", err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return s.spend(ctx, t.Back-time.Since(began), s.flips.settled)
}

// overtake has the sleeper's sku sold by the other instance, under a lock where one is
// needed to outbid the sleeper's token, while customers hold their breath.
func (s *story) overtake(ctx context.Context, sl *sleeper, lock bool) error {
	s.load.calm.Store(true)
	defer s.load.calm.Store(false)
	deadline := time.Now().Add(s.timetable.Back + 2*s.timetable.Slack)
	for {
		locked, err := sl.overtake(ctx, s.in[1])
		if err == nil && (locked || !lock) {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.Join(errors.New("nobody could overtake the sleeping holder"), err, ctx.Err())
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// part begins the next part.
func (s *story) part(name, what string) {
	s.mu.Lock()
	s.now = name
	s.mu.Unlock()
	s.view.phase(time.Since(s.start), name, what)
}

// spend waits for d, and then up to the slack until shown.
func (s *story) spend(ctx context.Context, d time.Duration, shown func() bool) error {
	pause(ctx, d)
	if shown != nil {
		s.until(ctx, s.timetable.Slack, shown)
	}
	return ctx.Err()
}

// until waits for is, but no longer than d.
func (s *story) until(ctx context.Context, d time.Duration, is func() bool) bool {
	deadline := time.Now().Add(d)
	for !is() {
		if ctx.Err() != nil || time.Now().After(deadline) {
			return false
		}
		pause(ctx, 20*time.Millisecond)
	}
	return true
}
