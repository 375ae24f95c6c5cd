package drills

import (
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
	const instances, pool = 50, 16
	w, err := way.To(servers.Redis(t, "--maxclients", "10000").Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	all := make([]*instance, instances)
	for n := range all {
		all[n] = behind(t, w, setup{store: func(c *redisstore.Config) { c.PoolSize, c.Wire = pool, pool }, policy: func(_ string, p *gateway.Policy) { p.Attempt = patience }})
	}
	stop := crowd(instances*2, func(caller, turn int) {
		i := all[caller%instances]
		_, _ = once(i.payments, own(caller, turn))
		_, _ = once(i.coupons, own(caller, turn))
		wait(250 * time.Millisecond)
	})
	defer stop()
	most := newDials(w)
	w.Become(way.Refuse)
	wait(lasts(1500*time.Millisecond, 30*time.Second))
	w.Become(way.None)
	back := time.Now()
	for _, i := range all {
		eventually(t, servedAgain(), "an instance is served", func() bool { return served(i.payments) })
	}
	t.Logf("all served %v after the store was back", time.Since(back))
	wait(5*time.Second - time.Since(back))
	stop()
	n := most()
	t.Logf("at most %d connections within 5 s, %.1f an instance", n, float64(n)/instances)
	if n > 2*pool*instances {
		t.Errorf("%d connections within 5 s by %d instances with a pool of %d", n, instances, pool)
	}
}

// newDials samples how many connections were accepted within any five seconds from now on.
func newDials(w *way.Way) (most func() int) {
	stop, done := make(chan struct{}), make(chan int64, 1)
	go func() {
		const step, window = 100 * time.Millisecond, 50
		seen, peak := []int64{w.Accepted()}, int64(0)
		tick := time.NewTicker(step)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- peak
				return
			case <-tick.C:
				now := w.Accepted()
				peak = max(peak, now-seen[max(0, len(seen)-window)])
				seen = append(seen, now)
			}
		}
	}()
	return func() int { close(stop); return int(<-done) }
}
