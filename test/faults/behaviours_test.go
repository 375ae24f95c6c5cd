package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
	"github.com/tierlock/tierlock/switchcfg"
)

const behavioursFile = "../../docs/behaviours.md"

// Every test that docs/behaviours.md names is there.
func TestBehavioursHaveTheirTests(t *testing.T) {
	text, err := os.ReadFile(behavioursFile)
	if err != nil {
		t.Fatal(err)
	}
	rows, names := 0, regexp.MustCompile("`([a-z/_0-9]+\\.go): (Test\\w+)`")
	for line := range strings.Lines(string(text)) {
		if !regexp.MustCompile(`^\| \d+ \|`).MatchString(line) {
			continue
		}
		rows++
		found := names.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("no test in %s", line)
		}
		for _, m := range found {
			source, err := os.ReadFile("../../" + m[1])
			if err != nil || !strings.Contains(string(source), "\nfunc "+m[2]+"(") {
				t.Errorf("%s has no %s: %v", m[1], m[2], err)
			}
		}
	}
	if rows != 10 {
		t.Errorf("%d behaviours, want ten", rows)
	}
}

// order puts a switch document in force on one chain.
func (n *node) order(t *testing.T, chain string, mode tierlock.Mode) {
	t.Helper()
	doc := switchcfg.Document{Version: n.gw.AppliedVersion() + 1, Chains: map[string]switchcfg.Directive{
		chain: {Mode: mode, Until: time.Now().Add(time.Hour), Reason: "a test", By: "test", BreakGlass: true},
	}}
	if mode == tierlock.ModeAuto {
		doc.Chains = map[string]switchcfg.Directive{}
	}
	if err := n.gw.Apply(doc); err != nil {
		t.Fatal(err)
	}
}

// With the store out of reach from one moment to the next, every holder's context has
// ended before the server frees its key.
func TestHolderKnowsFirst(t *testing.T) {
	t.Parallel()
	const locks = 1000
	s := newSite(t, setup{})
	type end struct {
		key string
		at  time.Time
	}
	ends := make(chan end, locks)
	taken := make(chan int)
	go func() {
		defer close(taken)
		for i := range locks {
			taken <- i
		}
	}()
	var taking, all sync.WaitGroup
	for range 16 {
		taking.Go(func() {
			for i := range taken {
				a := ask(s.orders, "k"+strconv.Itoa(i), gateway.WithTTL(3*time.Second), gateway.WithoutRenew())
				if a.err != nil {
					ends <- end{}
					continue
				}
				work := a.lock.Context(t.Context())
				all.Go(func() {
					<-work.Done()
					ends <- end{a.lock.Grant().Key.String(), time.Now()}
				})
			}
		})
	}
	taking.Wait()
	frees := map[string]time.Time{}
	pipe := s.boss.Pipeline()
	for i := range locks {
		pipe.Do(t.Context(), "pexpiretime", "biz:order:lock:k"+strconv.Itoa(i))
	}
	replies, _ := pipe.Exec(t.Context())
	for i, r := range replies {
		if ms, err := r.(interface{ Int64() (int64, error) }).Int64(); err == nil && ms > 0 {
			frees["biz:order:lock:k"+strconv.Itoa(i)] = time.UnixMilli(ms)
		}
	}
	s.way.Become(way.BlackHole)
	all.Wait()
	close(ends)
	judged := 0
	for e := range ends {
		free, ok := frees[e.key]
		if !ok {
			continue // taken so early that it was over before the look
		}
		judged++
		if late := e.at.Sub(free) - beat.Stalled(free.Add(-100*time.Millisecond), e.at); late >= 0 {
			t.Errorf("%s: its context ended %v after the server freed it", e.key, late)
		}
	}
	if judged < locks/2 {
		t.Errorf("%d of %d locks were judged", judged, locks)
	}
}

// Callers give up on a store whose replies come late, thousands of them: soon after no key
// stands there without a holder. A gateway that has met a few stops asking, so each crowd
// asks at once, by a gateway of its own.
func TestNoOrphansOfThousandsWhoGaveUp(t *testing.T) {
	t.Parallel()
	const crowd = 500
	rounds := 4
	if soak() {
		rounds = 20
	}
	s := newSite(t, setup{})
	var unheard atomic.Int64
	doubts := 0
	for round := range rounds {
		n := s.another(setup{})
		s.eventually(10*time.Second, "the gateway is served", func() bool { return served(n.orders) })
		var all sync.WaitGroup
		for range 64 { // its connections are there
			all.Go(func() { served(n.orders) })
		}
		all.Wait()
		s.way.Delay(300 * time.Millisecond)
		for i := range crowd {
			all.Go(func() {
				a := ask(n.orders, fmt.Sprint("k", round, "-", i))
				if a.reason() == tierlock.ReasonAttempt {
					unheard.Add(1)
				}
				_ = a.lock.Unlock(t.Context())
			})
		}
		all.Wait()
		doubts += n.gw.Status().InDoubt
		s.way.Become(way.None)
		answers := time.Now()
		s.eventually(10*time.Second, "nothing is in doubt", func() bool { return n.gw.Status().InDoubt == 0 })
		if took := tookSince(answers); took > time.Second {
			t.Errorf("settled %v after the store answered at once again, want at most 1 s", took)
		}
		s.nothingIsLeft()
	}
	// The rest stood in line for a call and was never sent.
	if t.Logf("%d of %d did not hear, %d of them in doubt", unheard.Load(), crowd*rounds, doubts); doubts < 10*rounds {
		t.Errorf("%d were in doubt: nothing was put to the proof", doubts)
	}
}

// Unlock goes where the grant came from, whatever was ordered in between.
func TestUnlockGoesWhereTheGrantCameFrom(t *testing.T) {
	t.Parallel()
	s := newSite(t, setup{})
	modes := []tierlock.Mode{tierlock.ModeShared, tierlock.ModeOptimistic, tierlock.ModeLocal, tierlock.ModeBypass}
	for _, from := range modes {
		for _, to := range modes {
			s.order(t, "coupon", from)
			a := ask(s.coupons, "a")
			if from == tierlock.ModeOptimistic {
				s.is(a, tierlock.ErrOptimistic)
			} else if a.err != nil || a.tier().String() != from.String() {
				t.Fatalf("%v: %v", from, a)
			}
			s.order(t, "coupon", to)
			if err := a.lock.Unlock(t.Context()); err != nil {
				t.Errorf("%v to %v: unlock: %v", from, to, err)
			}
			status := s.gw.Status()
			for _, c := range status.Chains {
				if c.Live != 0 || c.Local != 0 {
					t.Errorf("%v to %v: %d live, %d local", from, to, c.Live, c.Local)
				}
			}
			if keys := s.locks(); len(keys) != 0 || status.InDoubt != 0 {
				t.Errorf("%v to %v: %q left, %d in doubt", from, to, keys, status.InDoubt)
			}
		}
	}
}

// A key with a local holder stays its alone when the store is back, until it is given up;
// keys that nobody touched are served by the store meanwhile.
func TestRecoveryDrainsLocalHolders(t *testing.T) {
	t.Parallel()
	s := newSite(t, setup{})
	s.server.Kill()
	var local answer
	s.eventually(2*time.Second, "a local lock", func() bool { local = ask(s.coupons, "a"); return local.err == nil })
	if local.tier() != tierlock.Local {
		t.Fatal(local)
	}
	s.server.Restart()
	s.serves()
	for range 20 {
		s.is(ask(s.coupons, "a"), tierlock.ErrHeld)
	}
	if len(s.locks()) != 0 {
		t.Error("the store was asked for a key that is held here")
	}
	if err := local.lock.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	a := ask(s.coupons, "a")
	if a.err != nil || a.tier() != tierlock.Shared {
		t.Errorf("after the local lock: %v", a)
	}
	_ = a.lock.Unlock(t.Context())
}

// Tokens of shared grants rise over a store that forgets, a failover to an empty one, and
// grants of other tiers in between; a stale handle keeps its own.
func TestFencesOnlyRise(t *testing.T) {
	t.Parallel()
	s := newSite(t, setup{policy: func(p *gateway.Policy) { p.Fencing = true }})
	other := servers.Redis(t)
	first := s.must(s.coupons, "first", gateway.WithoutRenew())
	kept := first.Grant().Token
	last := tierlock.Token(0)
	grants := 0
	round := func() {
		for range 20 {
			l := s.must(s.coupons, "a")
			if token := l.Grant().Token; token <= last {
				t.Errorf("token %d after %d", token, last)
			} else {
				last = token
			}
			grants++
			_ = l.Unlock(t.Context())
		}
	}
	round()
	s.do("flushall")
	round()
	s.way.Lead(other.Addr())
	s.serves()
	round()
	for _, mode := range []tierlock.Mode{tierlock.ModeLocal, tierlock.ModeBypass} {
		s.order(t, "coupon", mode)
		a := ask(s.coupons, "a")
		if a.err != nil || a.lock.Grant().Token != 0 {
			t.Errorf("%v: %v, token %d", mode, a, a.lock.Grant().Token)
		}
		_ = a.lock.Unlock(t.Context())
		s.order(t, "coupon", tierlock.ModeAuto)
	}
	round()
	s.way.Lead(s.server.Addr())
	s.serves()
	round()
	if now := first.Grant().Token; now != kept || grants != 100 {
		t.Errorf("the stale handle's token became %d, was %d; %d grants", now, kept, grants)
	}
}

// Thousands of held locks are renewed by one watchdog, in batches, over two ttls.
func TestThousandsOfHeldLocksAreRenewed(t *testing.T) { // by itself: it counts goroutines
	held, ttl := 2000, 3*time.Second
	if soak() {
		held, ttl = 10_000, 15*time.Second
	}
	var renewed, failed, lost atomic.Int64
	s := newSite(t, setup{hooks: gateway.Hooks{
		Renewed: func(i gateway.RenewInfo) {
			if i.Err == nil {
				renewed.Add(1)
			} else {
				failed.Add(1)
			}
		},
		Lost: func(gateway.LostInfo) { lost.Add(1) },
	}})
	locks := make([]*gateway.Lock, held)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := n; i < held; i += 8 {
				for tries := 0; locks[i] == nil && tries < 20; tries++ { // a busy machine does not make each attempt
					locks[i] = ask(s.orders, "k"+strconv.Itoa(i), gateway.WithTTL(ttl)).lock
				}
			}
		})
	}
	all.Wait()
	var more []int
	for began := time.Now(); time.Since(began) < 2*ttl; wait(50 * time.Millisecond) {
		more = append(more, runtime.NumGoroutine()-before)
	}
	slices.Sort(more)
	// While renewals are on the wire a few carry them, however many locks there are.
	half, most := more[len(more)/2], more[len(more)-1]
	if t.Logf("%d goroutines more for %d locks, %d at most", half, held, most); half >= 10 || most >= 10+4*pool {
		t.Errorf("%d goroutines more for %d locks, %d at most", half, held, most)
	}
	stand := len(s.locks())
	t.Logf("%d renewals, %d of them failed", renewed.Load()+failed.Load(), failed.Load())
	if lost.Load() > 0 || stand != held || renewed.Load() < int64(held) {
		t.Errorf("%d of %d locks were lost, %d stand, %d renewals", lost.Load(), held, stand, renewed.Load())
	}
	for n := range 8 {
		all.Go(func() {
			for i := n; i < held; i += 8 {
				_ = locks[i].Unlock(context.Background())
			}
		})
	}
	all.Wait()
	s.nothingIsLeft()
}

// A loss is told as one, and soon: nobody waits for what he no longer has.
func TestLossIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, setup{})
	for i := range 20 {
		l := s.must(s.orders, strconv.Itoa(i))
		s.do("del", l.Grant().Key.String())
		began := time.Now()
		err := l.Unlock(t.Context())
		if took := tookSince(began); took > 50*time.Millisecond || !errors.Is(err, tierlock.ErrLost) || errors.Is(err, tierlock.ErrHeld) || errors.Is(err, tierlock.ErrTimeout) || errors.Is(err, tierlock.ErrSystem) {
			t.Errorf("release after the loss: %v after %v", err, took)
		}
	}
}
