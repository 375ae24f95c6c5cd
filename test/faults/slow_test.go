package faults

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/way"
)

func slowReplies(t *testing.T) {
	s := newSite(t, setup{})
	s.way.Delay(300 * time.Millisecond)
	for i := range 8 {
		s.is(ask(s.guarded, strconv.Itoa(i)), tierlock.ErrOptimistic, tierlock.ReasonAttempt, tierlock.ReasonSlow)
		s.is(ask(s.orders, strconv.Itoa(i)), tierlock.ErrTimeout)
		// Merely slow is never left for the local lock.
		s.is(ask(s.coupons, strconv.Itoa(i)), tierlock.ErrOptimistic)
	}
	s.way.Become(way.None)
	s.serves()
	s.nothingIsLeft()
}

func frozen(t *testing.T) {
	s := newSite(t, setup{})
	lasts := 3 * time.Second
	if soak() {
		lasts = 30 * time.Second
	}
	before := s.way.Accepted()
	s.server.Freeze()
	began := time.Now()
	var local time.Time
	for i := 0; time.Since(began) < lasts; i++ {
		a := ask(s.coupons, strconv.Itoa(i))
		if a.took > inTime {
			t.Errorf("answered after %v", a.took)
		}
		if a.err == nil && local.IsZero() {
			local = time.Now()
		}
		_ = a.lock.Unlock(t.Context())
		s.is(ask(s.orders, strconv.Itoa(i)), errNotServed)
		wait(5 * time.Millisecond)
	}
	if local.IsZero() || local.Sub(began) > 5*time.Second {
		t.Errorf("the weak chain was local after %v", local.Sub(began))
	}
	s.server.Thaw()
	s.serves()
	s.nothingIsLeft()
	// Two pools and the probes', each filled at most twice over, and what the few who still
	// try and the probes dial anew as theirs time out.
	if dials := s.way.Accepted() - before; dials > 2*(2*pool+2)+int64(lasts/time.Second)*40 {
		t.Errorf("%d connections were made", dials)
	}
}

// errNotServed stands for either thing that a strong chain may say of a store that does not
// answer; see site.is.
var errNotServed = errors.New("timeout or system_error")

func paused(t *testing.T) {
	s := newSite(t, setup{})
	s.do("client", "pause", "500", "write")
	s.is(ask(s.guarded, "a"), tierlock.ErrOptimistic, tierlock.ReasonAttempt)
	s.is(ask(s.orders, "a"), tierlock.ErrTimeout, tierlock.ReasonAttempt)
	wait(500 * time.Millisecond)
	s.serves()
	s.nothingIsLeft()
}

func slowDisk(t *testing.T) {
	disk := underShim(t)
	s := newSite(t, setup{server: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	disk.tell(0, 500*time.Millisecond)
	s.is(ask(s.guarded, "a"), tierlock.ErrOptimistic, tierlock.ReasonAttempt)
	s.is(ask(s.orders, "a"), errNotServed)
	disk.tell(0, 0)
	s.serves()
	s.nothingIsLeft()
}

func busy(t *testing.T) {
	s := newSite(t, setup{server: []string{"--busy-reply-threshold", "1"}})
	ended := make(chan error, 1)
	other := client(t, s.server.Addr())
	go func() { ended <- other.Eval(t.Context(), `while true do end`, nil).Err() }()
	s.eventually(5*time.Second, "the server is busy", func() bool {
		err := s.boss.Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY ")
	})
	a := ask(s.orders, "a")
	s.is(a, tierlock.ErrSystem)
	if !strings.Contains(a.err.Error(), "BUSY") || !strings.Contains(a.err.Error(), "SCRIPT KILL") {
		t.Errorf("the answer does not say how to end it: %v", a.err)
	}
	s.do("script", "kill")
	<-ended
	s.serves()
	s.nothingIsLeft()
}

// A wire that is full for a moment is a spike; only one that stays full is left.
func poolExhausted(t *testing.T) {
	const saturateIn = time.Second // 5 s by default
	s := newSite(t, setup{
		store:  func(c *redisstore.Config) { c.PoolSize, c.Wire = 1, 4 },
		policy: func(p *gateway.Policy) { p.Ladder.SaturateIn = saturateIn; p.Ladder.Timeouts = 64 },
	})
	s.way.Delay(70 * time.Millisecond) // under half an attempt: not slow
	stop, local := make(chan struct{}), make(chan time.Duration, 1)
	began := time.Now()
	// Many more than have room, and out of step with the store: where all of them are on one trip,
	// or an attempt is a whole number of trips, everybody comes and goes at once, and the wire is
	// empty at that moment, which is no wire that stays full.
	const callers = 32
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			for i := n; ; i += callers {
				select {
				case <-stop:
					return
				default:
				}
				a := ask(s.coupons, strconv.Itoa(i))
				if a.err == nil && a.tier() == tierlock.Local {
					select {
					case local <- time.Since(began):
					default:
					}
				}
				_ = a.lock.Unlock(t.Context())
				wait(time.Duration(rand.Int64N(int64(20 * time.Millisecond))))
			}
		})
	}
	select {
	case after := <-local:
		if after < saturateIn*9/10 {
			t.Errorf("local after %v: a spike was enough", after)
		}
	case <-time.After(8 * time.Second):
		t.Error("the weak chain was never local")
	}
	close(stop)
	all.Wait()
	s.way.Become(way.None)
	s.serves()
	s.nothingIsLeft()
}
