package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// working is a source that notes how long nothing was heard of its job.
type working struct {
	*stream
	last    time.Time
	longest time.Duration
}

func (w *working) Working() {
	w.longest = max(w.longest, time.Since(w.last))
	w.last = time.Now()
}

func (w *working) Next(ctx context.Context) (Batch, error) {
	w.Working()
	return w.stream.Next(ctx)
}

// However long the end takes, the source hears that the job is at work.
func TestTheEndSaysThatItIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosed()
		const n = 30
		c.conflict(t, "coupon", "u1", n+1)
		c.seal()
		w := &working{stream: c.join(), last: time.Now()}
		_, took := c.run(t, func(cfg *Config) {
			cfg.Source = w
			hook := cfg.Hooks["coupon"]
			repair := hook.Repair
			hook.Repair = RepairFunc(func(ctx context.Context, c Case) (Result, error) {
				time.Sleep(20 * time.Second)
				return repair.Repair(ctx, c)
			})
			cfg.Hooks["coupon"] = hook
		})
		w.Working() // since the last sign
		if len(c.led.repairs) != n || took < n*20*time.Second || w.longest > time.Minute {
			t.Errorf("%d repairs in %s, once without a sign for %s", len(c.led.repairs), took, w.longest)
		}
	})
}
