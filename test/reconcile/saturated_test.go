package reconcile

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// serveCoupons is a child with one chain and a narrow wire.
func serveCoupons(c child) error {
	const wire = 2 // operations that it may have out; two replies that come late fill it
	weak := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	weak.Local.Permits, weak.Ladder.SaturateIn, weak.Ladder.Timeouts, weak.TTL = 1, time.Second, 64, 5*time.Second
	return c.ply(trade{
		store: redisstore.Config{PoolSize: 1, Wire: wire}, chains: map[string]gateway.Policy{"coupon": weak}, workers: 6,
		hold: func(coupons *gateway.Chain) (held, bool) {
			return live(coupons, c.name, time.Duration(5+rand.IntN(20))*time.Millisecond, func(_, _ time.Time, _ string, err error) {
				if err != nil {
					rest(time.Millisecond)
				}
			})
		},
	})
}

// kept keeps findings by id.
type kept struct {
	mu sync.Mutex
	by map[string]reconcile.Finding
}

func (s *kept) Put(_ context.Context, f reconcile.Finding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.by[f.ID]; !known || f.Replaces(&was) {
		s.by[f.ID] = f
	}
	return nil
}

// together tells which pairs of holders are in one finding.
func (s *kept) together() map[[2]string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pairs := map[[2]string]bool{}
	for _, f := range s.by {
		for i := range f.Members {
			for j := range f.Members {
				pairs[[2]string{f.Members[i].Holder, f.Members[j].Holder}] = true
			}
		}
	}
	return pairs
}

// clashes are the pairs of holds of two processes, one shared and one local, that
// overlapped by more than a moment.
func clashes(all []held) (pairs [][2]held) {
	byKey := map[string][]held{}
	for _, h := range all {
		byKey[h.key] = append(byKey[h.key], h)
	}
	for _, list := range byKey {
		for i, a := range list {
			for _, b := range list[i+1:] {
				if a.process != b.process && a.tier != b.tier && a.overlaps(b) > time.Millisecond {
					pairs = append(pairs, [2]held{a, b})
				}
			}
		}
	}
	return pairs
}

// One of three processes has its wire full and grants local, while the others hold shared
// on the same keys. Every overlap that the processes lived through is in a finding, and
// none is called certain that was not.
func TestNoOverlapOfASaturatedProcessIsMissed(t *testing.T) {
	redis, kafka := servers.Redis(t), servers.Kafka(t)
	slow, err := way.To(redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	dir := t.TempDir()
	full := start(t, "full", slow.Addr(), kafka.Addr(), dir)
	crew := []*process{full, start(t, "free-1", redis.Addr(), kafka.Addr(), dir), start(t, "free-2", redis.Addr(), kafka.Addr(), dir)}
	await(t, "shared holds of all", func() bool {
		return full.in("shared") > 20 && crew[1].in("shared") > 20 && crew[2].in("shared") > 20
	})
	slow.Delay(60 * time.Millisecond)
	await(t, "local holds of the saturated one", func() bool { return full.in("local") > 200 })
	slow.Delay(0)
	var all []held
	for _, p := range crew {
		p.stop(t)
		all = append(all, p.holds...)
	}
	want := clashes(all)
	if len(want) < 20 {
		t.Fatalf("%d clashes of %d holds, %d local", len(want), len(all), full.in("local"))
	}

	found := reconciled(t, kafka.Addr(), len(all))
	pairs, missed := found.together(), 0
	for _, p := range want {
		if !pairs[[2]string{p[0].holder, p[1].holder}] {
			missed++
			t.Errorf("missed: %v%v", p[0], p[1])
		}
	}
	lived := map[string]held{}
	for _, h := range all {
		lived[h.holder] = h
	}
	certain := 0
	for _, f := range found.by {
		if f.Kind != reconcile.KindOverlap || !f.Certain {
			continue
		}
		certain++
		if really := overlapping(f.Members, lived); really < f.CertainPairs {
			t.Errorf("%d pairs are certain and %d overlapped: %+v", f.CertainPairs, really, f)
		}
	}
	t.Logf("%d holds, %d local; %d clashes lived through, %d missed; %d findings, %d certain", len(all), full.in("local"), len(want), missed, len(found.by), certain)
}

// overlapping counts the pairs of a finding's holds that can have overlapped. A grant begins
// before its caller has it, and ends after he has let go, and a process may be stopped for
// any time between: so they count from their asking to the return of their release. A hold
// that no process has lived is one whose caller had given up; it is in no certain pair.
func overlapping(members []reconcile.Interval, lived map[string]held) (pairs int) {
	for i := range members {
		a, known := lived[members[i].Holder]
		for j := range members[:i] {
			if b, both := lived[members[j].Holder]; known && both && a.holder != b.holder && a.mayOverlap(b) {
				pairs++
			}
		}
	}
	return pairs
}

// reconciled runs a job until it has judged everything: all producers have sealed.
func reconciled(t *testing.T, kafka string, holds int) *kept {
	t.Helper()
	source, err := kafkasource.New(kafkasource.Config{Brokers: []string{kafka}, MaxWait: 50 * time.Millisecond, Session: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	found := &kept{by: map[string]reconcile.Finding{}}
	job, err := reconcile.New(reconcile.Config{Source: source, Findings: []reconcile.Findings{found}, Tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := job.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	await(t, "the judgement of every hold", func() bool {
		st := job.Stats()
		return st.Holds >= uint64(holds) && st.OpenHolds == 0
	})
	cancel()
	run.Wait()
	if err := source.Close(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
	if r := job.Report(); !r.Complete {
		t.Errorf("something is missing: %+v", r.Missing)
	}
	return found
}
