package switchcfg

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestALostPushIsOnEveryInstanceWithin6s: fifty instances of which none is ever told, flips at
// any moment between two polls, answers that take up to half a second.
func TestALostPushIsOnEveryInstanceWithin6s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("1", 24*time.Hour)}
		src := laggard{f}
		var all []*bundle
		for range 50 {
			all = append(all, start(t, src, f, ""))
			time.Sleep(rand.N(200 * time.Millisecond))
		}
		var worst time.Duration
		for version := uint64(2); version < 20; version++ {
			time.Sleep(rand.N(10 * time.Second))
			f.set(func() { f.text = doc(utoa(version), 24*time.Hour) })
			began := time.Now()
			for len(late(all, version)) > 0 && time.Since(began) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			worst = max(worst, time.Since(began))
		}
		if worst > 6*time.Second {
			t.Errorf("the slowest needed %v", worst)
		}
		t.Logf("the slowest of 900 needed %v", worst)
		for _, b := range all {
			b.stop()
		}
	})
}

// laggard answers after some time, and hints nothing: it is a Pusher whose pushes are lost.
type laggard struct{ *fake }

func (l laggard) Fetch(ctx context.Context) ([]byte, error) {
	time.Sleep(rand.N(500 * time.Millisecond))
	return l.fake.Fetch(ctx)
}

func (l laggard) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

// late are the instances on which another version is in force.
func late(all []*bundle, version uint64) (behind []*bundle) {
	for _, b := range all {
		b.src.mu.Lock()
		if n := len(b.reports); n == 0 || b.reports[n-1].Version != version {
			behind = append(behind, b)
		}
		b.src.mu.Unlock()
	}
	return behind
}

func utoa(v uint64) string { return strconv.FormatUint(v, 10) }
