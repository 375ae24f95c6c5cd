package drills

import (
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// Fifty instances lose one store and find it again, with callers who wait for it. They make
// at most twice their pool of new connections within five seconds, and each is served soon.
func TestFiftyInstancesComeBack(t *testing.T) {
	t.Parallel()
	const instances = 50
	server := servers.Redis(t, "--maxclients", "10000")
	all := make([]*instance, instances)
	for n := range all {
		all[n] = newInstance(t, server, setup{store: func(c *redisstore.Config) { c.Wire = pool }, policy: func(_ string, p *gateway.Policy) { p.Attempt = patience }})
	}
	stop := crowd(instances*2, func(caller, turn int) {
		i := all[caller%instances]
		_, _ = once(i.payments, own(caller, turn))
		_, _ = once(i.coupons, own(caller, turn))
		wait(250 * time.Millisecond)
	})
	defer stop()
	var dialled [instances]func() int
	for n, i := range all {
		dialled[n] = newDials(i.way)
		defer dialled[n]()
		i.way.Become(way.Refuse)
	}
	wait(lasts(1500*time.Millisecond, 30*time.Second))
	for _, i := range all {
		i.way.Become(way.None)
	}
	back := time.Now()
	for _, i := range all {
		eventually(t, servedAgain(), "an instance is served", func() bool { return served(i.payments) })
	}
	t.Logf("all served %v after the store was back", time.Since(back))
	wait(5*time.Second - time.Since(back))
	stop()
	most, sum := 0, 0
	for _, n := range dialled {
		most, sum = max(most, n()), sum+n()
	}
	t.Logf("%.1f connections an instance on average", float64(sum)/instances)
	if sum > 2*pool*instances {
		t.Errorf("%d new connections within 5 s by %d instances with a pool of %d", sum, instances, pool)
	}
	fewDials(t, most)
}

// fewDials checks that an instance made at most twice its pool of new connections within five
// seconds. In a short run the faults stand so close that one window has all of them, and a busy
// machine dials twice: there it may be thrice.
func fewDials(t *testing.T, most int) {
	t.Helper()
	t.Logf("at most %d new connections within 5 s", most)
	times := 3
	if soak() {
		times = 2
	}
	if most > times*pool {
		t.Errorf("%d new connections within 5 s with a pool of %d", most, pool)
	}
}

// newDials samples how many connections were accepted within any five seconds from now on.
func newDials(w *way.Way) (most func() int) {
	type sample struct {
		at       time.Time
		accepted int64
	}
	stop, done := make(chan struct{}), make(chan int64, 1)
	go func() {
		seen, peak := []sample{{time.Now(), w.Accepted()}}, int64(0)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- peak
				return
			case <-tick.C:
				now := sample{time.Now(), w.Accepted()}
				for len(seen) > 1 && now.at.Sub(seen[0].at) > 5*time.Second {
					seen = seen[1:]
				}
				peak = max(peak, now.accepted-seen[0].accepted)
				seen = append(seen, now)
			}
		}
	}()
	return sync.OnceValue(func() int { close(stop); return int(<-done) })
}
