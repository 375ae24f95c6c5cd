package gateway_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// slowDisk is a recorder whose Record takes its time, as an fsync does.
type slowDisk struct {
	gatewaytest.Audit
	takes   time.Duration
	durable chan time.Time
}

func (d *slowDisk) Record(ctx context.Context, ev *audit.Event) error {
	select {
	case <-time.After(d.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	err := d.Audit.Record(ctx, ev)
	d.durable <- time.Now()
	return err
}

func on(t *testing.T, p gateway.Policy, rec audit.Recorder) (*gateway.Gateway, *gateway.Chain) {
	t.Helper()
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"c": p}, Stores: map[string]tierlock.Backend{"m": gatewaytest.NewStore()}, Audit: rec,
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.Chain("c")
	if err != nil {
		t.Fatal(err)
	}
	return g, c
}

func TestABypassGrantIsDurableBeforeTheCallerHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{takes: 30 * time.Millisecond, durable: make(chan time.Time, 1)}
		g, c := on(t, weak(), disk)
		if err := g.Apply(bypassFor(time.Hour, 1)); err != nil {
			t.Fatal(err)
		}
		l, err := c.TryLock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		select {
		case at := <-disk.durable:
			if l.Grant().AcquiredAt.After(at) {
				t.Error("the grant is dated after its event")
			}
		default:
			t.Fatal("the caller had the grant before its event was durable")
		}
		_ = l.Unlock(t.Context())

		disk.takes = time.Hour
		began := time.Now()
		_, err = c.TryLock(t.Context(), "a")
		if v := verdict(t, err); v.Reason != tierlock.ReasonUnrecorded || time.Since(began) > 220*time.Millisecond {
			t.Errorf("a disk that hangs: %+v after %v", v, time.Since(began))
		}
		_ = g.Close(context.Background())
	})
}

// The order ends while the event of a bypass grant is on its way to the disk: the grant is
// not used, its event is closed, and the request is served where the chain stands now.
func TestABypassGrantAfterItsOrderIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{takes: 100 * time.Millisecond, durable: make(chan time.Time, 1)}
		g, c := on(t, weak(), disk)
		if err := g.Apply(bypassFor(50*time.Millisecond, 1)); err != nil {
			t.Fatal(err)
		}
		l, err := c.TryLock(t.Context(), "a")
		if err != nil || l.Grant().Tier != tierlock.Shared {
			t.Fatalf("tier %v, %v", l.Grant().Tier, err)
		}
		evs := disk.Events()
		if len(evs) != 3 || evs[0].Tier != tierlock.Bypass || evs[1].How != audit.Forced || evs[1].ID != evs[0].ID || evs[2].ID == evs[0].ID {
			t.Errorf("%+v", evs)
		}
		_ = l.Unlock(t.Context())
		_ = g.Close(context.Background())
	})
}

func TestAuditWaitAndOnFull(t *testing.T) {
	full := errors.New("disk full")
	cases := []struct {
		name    string
		wait    audit.Wait
		onFull  audit.OnFull
		mode    tierlock.Mode
		refused bool
	}{
		{"shared, waits for bypass only", audit.WaitBypass, audit.Reject, tierlock.ModeShared, false},
		{"shared, waits for all", audit.WaitAll, audit.Reject, tierlock.ModeShared, true},
		{"local, waits for bypass only", audit.WaitBypass, audit.Reject, tierlock.ModeLocal, false},
		{"local, waits for degraded", audit.WaitDegraded, audit.Reject, tierlock.ModeLocal, true},
		{"bypass", audit.WaitBypass, audit.Reject, tierlock.ModeBypass, true},
		{"bypass, shed", audit.WaitBypass, audit.Shed, tierlock.ModeBypass, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := weak()
			p.Audit.Wait, p.Audit.OnFull = c.wait, c.onFull
			bubble(t, p, func(t *testing.T, k one) {
				k.Force("c", c.mode)
				k.Audit.Fail(full)
				l, err := k.TryLock(t.Context(), "a")
				if (err != nil) != c.refused {
					t.Fatalf("got %v", err)
				}
				if err != nil && (!errors.Is(err, full) || verdict(t, err).Reason != tierlock.ReasonUnrecorded) {
					t.Errorf("got %v", err)
				}
				_ = l.Unlock(t.Context())
				eventually(t, time.Second, "nothing left", func() bool {
					s := k.Status()
					return k.Store.Keys() == 0 && s.Chains[0].Live == 0 && s.Chains[0].Local == 0
				})
				if want := map[bool]int{true: 1}[c.onFull == audit.Shed]; k.Audit.Shed() != want {
					t.Errorf("%d shed", k.Audit.Shed())
				}
			})
		})
	}
}

func TestWhatIsRecorded(t *testing.T) {
	cases := []struct {
		record audit.Record
		events map[tierlock.Mode]int
	}{
		{audit.RecordAll, map[tierlock.Mode]int{tierlock.ModeShared: 2, tierlock.ModeOptimistic: 1, tierlock.ModeLocal: 2, tierlock.ModeBypass: 2}},
		{audit.RecordDegraded, map[tierlock.Mode]int{tierlock.ModeShared: 0, tierlock.ModeOptimistic: 1, tierlock.ModeLocal: 2, tierlock.ModeBypass: 2}},
		{audit.RecordOff, map[tierlock.Mode]int{tierlock.ModeShared: 0, tierlock.ModeOptimistic: 0, tierlock.ModeLocal: 0, tierlock.ModeBypass: 2}},
	}
	for _, c := range cases {
		for mode, want := range c.events {
			t.Run(c.record.String()+" "+mode.String(), func(t *testing.T) {
				p := weak()
				p.Audit.Record = c.record
				bubble(t, p, func(t *testing.T, k one) {
					k.Force("c", mode)
					l, _ := k.TryLock(t.Context(), "a", gateway.About(audit.Business{Type: "coupon", ID: "u42-c7", Op: "claim", Delta: 1}))
					time.Sleep(28 * time.Millisecond)
					l.Report(audit.Committed)
					_ = l.Unlock(t.Context())
					evs := k.Audit.Events()
					if len(evs) != want {
						t.Fatalf("%d events, want %d", len(evs), want)
					}
					for _, ev := range evs {
						if ev.Business.ID != "u42-c7" || ev.Switch.Version == 0 || ev.Key.String() != "biz:c:lock:a" || ev.ClockError != time.Millisecond {
							t.Errorf("%+v", ev)
						}
					}
					if want == 2 {
						a, e := evs[0], evs[1]
						if a.Type != audit.TypeAcquire || e.Type != audit.TypeEnd || e.How != audit.Released || e.Outcome != audit.Committed {
							t.Errorf("%+v\n%+v", a, e)
						}
						if !a.GrantedAt.Equal(e.GrantedAt) || e.EndedAt.Sub(e.GrantedAt) != 28*time.Millisecond || a.ID != e.ID {
							t.Errorf("granted %v, %v, ended %v", a.GrantedAt, e.GrantedAt, e.EndedAt)
						}
					}
				})
			})
		}
	}
}

func TestALockNeverUnlockedEndsInTheTrail(t *testing.T) {
	p := weak()
	p.TTL = 5 * time.Second
	for _, mode := range []tierlock.Mode{tierlock.ModeShared, tierlock.ModeLocal, tierlock.ModeBypass} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, p, func(t *testing.T, k one) {
				k.Force("c", mode)
				l := k.must("a", gateway.WithoutRenew())
				end := l.Grant().ExpiresAt
				time.Sleep(time.Until(end) + 100*time.Millisecond)
				evs := k.Audit.Of(l.Grant().RequestID)
				if len(evs) != 2 || evs[1].How != audit.Expired || !evs[1].EndedAt.Equal(end) {
					t.Errorf("%+v", evs)
				}
				if k.Status().Chains[0].Live != 0 {
					t.Error("it is still live")
				}
				if err := l.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) || len(k.Audit.Of(l.Grant().RequestID)) != 2 {
					t.Errorf("late unlock: %v, %d events", err, len(k.Audit.Of(l.Grant().RequestID)))
				}
			})
		})
	}
}

func TestDoTellsHowTheWorkEnded(t *testing.T) {
	failed := errors.New("no stock")
	for name, c := range map[string]struct {
		err  error
		want audit.Work
	}{"committed": {nil, audit.Committed}, "rolled back": {failed, audit.RolledBack}, "unknown": {context.Canceled, audit.Unknown}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, weak(), func(t *testing.T, k one) {
				err := k.Do(t.Context(), "a", func(ctx context.Context, g tierlock.Grant) error {
					if l, ok := gateway.LockOf(ctx); !ok || l.Grant() != g {
						t.Error("fn's context does not carry its lock")
					}
					return c.err
				})
				if !errors.Is(err, c.err) {
					t.Errorf("got %v", err)
				}
				if evs := k.Audit.Events(); len(evs) != 2 || evs[1].Outcome != c.want {
					t.Errorf("%+v", evs)
				}
				k.Force("c", tierlock.ModeOptimistic)
				ran := false
				err = k.Do(t.Context(), "a", func(context.Context, tierlock.Grant) error { t.Error("fn ran without a lock"); return nil },
					gateway.Optimistically(func(context.Context) error { ran = true; return c.err }))
				evs := k.Audit.Events()
				if last := evs[len(evs)-1]; !errors.Is(err, c.err) || !ran || len(evs) != 3 || last.Type != audit.TypeOptimistic || last.Outcome != c.want || last.Reason != tierlock.ReasonForced {
					t.Errorf("optimistic: %v, ran %v, %+v", err, ran, last)
				}
			})
		})
	}
	t.Run("without the other work", func(t *testing.T) {
		bubble(t, weak(), func(t *testing.T, k one) {
			k.Force("c", tierlock.ModeOptimistic)
			err := k.Do(t.Context(), "a", func(context.Context, tierlock.Grant) error { t.Error("fn ran"); return nil })
			if !errors.Is(err, tierlock.ErrOptimistic) || len(k.Audit.Events()) != 1 {
				t.Errorf("%v, %d events", err, len(k.Audit.Events()))
			}
		})
	})
	t.Run("panics", func(t *testing.T) {
		bubble(t, weak(), func(t *testing.T, k one) {
			func() {
				defer func() { _ = recover() }()
				_ = k.Do(t.Context(), "a", func(context.Context, tierlock.Grant) error { panic("bug") })
			}()
			if evs := k.Audit.Events(); k.Store.Keys() != 0 || len(evs) != 2 || evs[1].Outcome != audit.Unknown {
				t.Errorf("%d keys, %+v", k.Store.Keys(), evs)
			}
		})
	})
}

func TestHeartbeatsTellWhereTheChainsStand(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Force("c", tierlock.ModeBypass)
		s := k.Audit.Status()
		if s.Applied != 1 || s.PolicyHash != k.PolicyHash() || len(s.PolicyHash) != 16 || s.Tiers["c"] != "bypass" {
			t.Errorf("%+v", s)
		}
	})
}

// One lock may be entered more than once: that an outer entry's work was rolled back says
// nothing of what an inner one has committed.
func TestReportsOfOneLockJoin(t *testing.T) {
	const yes, no, unsaid = audit.Committed, audit.RolledBack, audit.Unknown
	for _, c := range []struct {
		told []audit.Work
		want audit.Work
	}{
		{nil, unsaid},
		{[]audit.Work{no}, no},
		{[]audit.Work{no, no}, no},
		{[]audit.Work{yes, no}, yes},
		{[]audit.Work{no, yes}, yes},
		{[]audit.Work{unsaid, no}, unsaid},
		{[]audit.Work{no, unsaid}, unsaid},
		{[]audit.Work{unsaid, yes}, yes},
	} {
		bubble(t, weak(), func(t *testing.T, k one) {
			l := k.must("a")
			for _, outcome := range c.told {
				l.Report(outcome)
			}
			k.unlock(l)
			if evs := k.Audit.Events(); len(evs) != 2 || evs[1].Outcome != c.want {
				t.Errorf("%v told: %+v, want %s", c.told, evs, c.want)
			}
		})
	}
	failed := errors.New("no stock")
	bubble(t, strong(), func(t *testing.T, k one) {
		err := k.Do(t.Context(), "a", func(ctx context.Context, _ tierlock.Grant) error {
			if err := k.Do(ctx, "a", func(context.Context, tierlock.Grant) error { return nil }); err != nil {
				t.Error(err)
			}
			return failed
		})
		evs := k.Audit.Events()
		if last := evs[len(evs)-1]; !errors.Is(err, failed) || last.Type != audit.TypeEnd || last.Outcome != audit.Committed {
			t.Errorf("%v, %+v", err, evs)
		}
	})
}
