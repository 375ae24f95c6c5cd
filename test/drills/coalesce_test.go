package drills

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// counted counts what a store is asked of one key.
type counted struct {
	tierlock.Backend
	passer    tierlock.Passer
	key       string
	asked     atomic.Int64 // acquires and hand-overs
	out, most atomic.Int64 // acquires that callers wait for
}

func (c *counted) Traits() tierlock.Traits {
	traits := c.Backend.Traits()
	c.passer, traits.Passer = traits.Passer, c
	return traits
}

func (c *counted) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	if req.Key.String() != c.key {
		return c.Backend.Acquire(ctx, req)
	}
	c.asked.Add(1)
	if n := c.out.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.out.Add(-1)
	return c.Backend.Acquire(ctx, req)
}

func (c *counted) Pass(ctx context.Context, from tierlock.Hold, to tierlock.Request) (tierlock.Answer, error) {
	if from.Key.String() == c.key {
		c.asked.Add(1)
	}
	return c.passer.Pass(ctx, from, to)
}

// One of three instances fills its wire and coalesces: the hot key that all three want has one
// holder at a time among them, each by a grant of the store, and costs the full wire no more
// than a few commands for each holder, however many callers there are.
func TestOneOfThreeIsSaturatedAndCoalesces(t *testing.T) {
	t.Parallel()
	const hot = "hot"
	server := servers.Redis(t)
	store := &counted{key: "biz:coupon:lock:" + hot}
	all := [3]*instance{}
	for n := range all {
		with := setup{policy: func(_ string, p *gateway.Policy) {
			p.Attempt, p.Wait, p.Ladder.Timeouts = patience, 2*patience, 64 // a busy machine is no slow store
			if p.Ladder.Class == degrade.ClassWeak {
				p.Ladder.OnSaturated, p.Ladder.OnDown = degrade.FallbackCoalesce, degrade.FallbackFail
				p.Ladder.SaturateIn = lasts(time.Second, 5*time.Second)
				p.Ladder.RelaxIn = time.Hour // a busy machine that makes no load for two seconds frees no wire
			}
		}}
		if n == 0 {
			with.store = narrow(8)
			with.gateway = func(c *gateway.Config) {
				store.Backend = c.Stores["main"]
				c.Stores["main"] = store
			}
		}
		all[n] = newInstance(t, server, with)
	}
	full := all[0]
	full.way.Delay(90 * time.Millisecond)
	stop := crowd(12, func(caller, turn int) { _, _ = once(full.coupons, own(caller, turn)); wait(time.Millisecond) })
	defer stop()
	eventually(t, 20*time.Second, "the wire is full", func() bool { return full.state("coupon") == degrade.Saturated })

	var inside, overlaps, below atomic.Int64
	var granted [3]atomic.Int64
	asked, began := store.asked.Load(), time.Now()
	var stops []func()
	for n, i := range all {
		callers, pause := 24, time.Millisecond
		if n > 0 { // they would have the key all the time, a way of a millisecond against one of 90
			callers, pause = 2, 30*time.Millisecond
		}
		stops = append(stops, crowd(callers, func(caller, _ int) {
			defer wait(pause)
			lock := i.coupons.Lock
			if caller%2 == 0 {
				lock = i.coupons.TryLock
			}
			l, err := lock(context.Background(), hot)
			if err != nil {
				return
			}
			if inside.Add(1) != 1 {
				overlaps.Add(1)
			}
			if l.Grant().Tier != tierlock.Shared {
				below.Add(1)
			}
			granted[n].Add(1)
			wait(2 * time.Millisecond)
			inside.Add(-1)
			_ = l.Unlock(context.Background())
		}))
	}
	wait(lasts(3*time.Second, time.Minute))
	eventually(t, 20*time.Second, "the full one had its turns", func() bool { return granted[0].Load() > 2 })
	for _, stop := range stops {
		stop()
	}
	span, commands := time.Since(began), store.asked.Load()-asked
	t.Logf("%d, %d and %d grants in %v, all shared; the full wire carried %d acquires and hand-overs of the key, at most %d acquires at once",
		granted[0].Load(), granted[1].Load(), granted[2].Load(), span.Round(time.Millisecond), commands, store.most.Load())
	if overlaps.Load() > 0 || below.Load() > 0 {
		t.Errorf("%d overlaps, %d grants below shared", overlaps.Load(), below.Load())
	}
	if store.most.Load() != 1 {
		t.Errorf("%d acquires of the key were out at once", store.most.Load())
	}
	if most := 2*granted[0].Load() + int64(span/(40*time.Millisecond)) + 24; commands > most {
		t.Errorf("%d commands for the key, want at most %d", commands, most)
	}
}
