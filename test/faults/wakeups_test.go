package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

const (
	wakeNodes, wakeKeys, wakeEach, wakeTurns = 6, 3, 3, 3 // 54 who wait
	// wakeMost is how long a free key may go without a holder while somebody waits: the poll of
	// who is told nothing, 200 ms and a quarter, and its question to a server that may be busy.
	wakeMost = 250*time.Millisecond + 250*time.Millisecond
)

// Words that wake who waits are lost again and again, with their subscriptions or with the
// line they are told from: everybody is served all the same, and no free key goes without a
// holder for longer than it takes to ask by time.
func TestLostWordsDelayNobodyForLong(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]struct{ subscriptions, lines bool }{
		"subscriptions": {true, false},
		"lines":         {false, true},
		"both":          {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWakes(t)
			stop := make(chan struct{})
			var losing sync.WaitGroup
			losing.Go(func() { w.lose(stop, lose.subscriptions, lose.lines) })
			w.run()
			close(stop)
			losing.Wait()
			w.judge()
			if n := w.killed.Load(); lose.subscriptions && n < 10*wakeNodes {
				t.Errorf("%d subscriptions were killed: nothing was put to the proof", n)
			}
			if n := w.deleted.Load(); lose.lines && n < 20 {
				t.Errorf("%d lines were lost: nothing was put to the proof", n)
			}
			w.nothingIsLeft()
		})
	}
}

// wakes is who waits, and what became of it.
type wakes struct {
	*site
	nodes           []node
	killed, deleted atomic.Int64

	mu   sync.Mutex
	took [wakeKeys][]turn // guarded by mu
	left [wakeKeys][]turn // waits that ended without the lock; guarded by mu
}

// turn is one wait, and the hold that it came to.
type turn struct {
	node            int
	asked, from, to time.Time
}

func newWakes(t *testing.T) *wakes {
	t.Helper()
	w := &wakes{site: newSite(t, setup{})}
	for range wakeNodes {
		n := w.another(setup{})
		w.eventually(10*time.Second, "the gateway is served", func() bool { return served(n.orders) })
		w.nodes = append(w.nodes, n)
	}
	return w
}

// lose loses what wakes people until stop is closed.
func (w *wakes) lose(stop <-chan struct{}, subscriptions, lines bool) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		var killed, deleted *redis.IntCmd
		pipe := w.boss.Pipeline()
		if subscriptions && n%10 == 0 {
			killed = pipe.ClientKillByFilter(w.Context(), "type", "pubsub")
		}
		if lines {
			var names []string
			for k := range wakeKeys {
				names = append(names, fmt.Sprintf("{biz:order:lock:wake%d}:wait", k))
			}
			deleted = pipe.Del(w.Context(), names...)
		}
		if _, err := pipe.Exec(w.Context()); err != nil {
			w.Error(err)
			return
		}
		if killed != nil {
			w.killed.Add(killed.Val())
		}
		if deleted != nil {
			w.deleted.Add(deleted.Val())
		}
	}
}

// run has everybody take turns.
func (w *wakes) run() {
	var all sync.WaitGroup
	var inside [wakeKeys]atomic.Int64
	for n := range w.nodes {
		for k := range wakeKeys {
			for range wakeEach {
				all.Go(func() {
					for range wakeTurns {
						wait(rand.N(60 * time.Millisecond)) // so that the next one often is another gateway's
						w.take(n, k, &inside[k])
					}
				})
			}
		}
	}
	all.Wait()
}

// take asks until it is served.
func (w *wakes) take(n, k int, inside *atomic.Int64) {
	for tries := 1; ; tries++ {
		one := turn{node: n, asked: time.Now()}
		l, err := w.nodes[n].orders.Lock(w.Context(), "wake"+strconv.Itoa(k), gateway.WithWait(2*time.Second))
		one.from = time.Now()
		if err == nil {
			if at := inside.Add(1); at != 1 {
				w.Errorf("%d inside", at)
			}
			wait(5 * time.Millisecond)
			inside.Add(-1)
			one.to = time.Now()
			_ = l.Unlock(w.Context())
		}
		w.mu.Lock()
		if err == nil {
			w.took[k] = append(w.took[k], one)
		} else {
			w.left[k] = append(w.left[k], one)
		}
		w.mu.Unlock()
		switch {
		case err == nil:
			return
		case !errors.Is(err, tierlock.ErrHeld) && !errors.Is(err, tierlock.ErrTimeout), tries > 20:
			w.Errorf("not served in %d waits: %v", tries, err)
			return
		}
	}
}

// judge looks at the times in which a key was free and somebody waited for it.
func (w *wakes) judge() {
	w.Helper()
	var gaps []time.Duration
	for k := range wakeKeys {
		took, waits := w.took[k], slices.Concat(w.took[k], w.left[k])
		if len(took) != wakeNodes*wakeEach*wakeTurns {
			w.Errorf("key %d: %d turns, want %d", k, len(took), wakeNodes*wakeEach*wakeTurns)
		}
		slices.SortFunc(took, func(a, b turn) int { return a.from.Compare(b.from) })
		for i := 1; i < len(took); i++ {
			free, next := took[i-1].to, took[i]
			if took[i-1].node == next.node {
				continue
			}
			waited := next.from // since when somebody did who went on to
			for _, one := range waits {
				if !one.from.Before(next.from) && one.asked.Before(waited) {
					waited = one.asked
				}
			}
			if waited.After(free) {
				free = waited
			}
			gap := next.from.Sub(free) - beat.Stalled(free, next.from)
			if gaps = append(gaps, gap); gap > wakeMost {
				w.Errorf("key %d was free for %v while somebody waited, want at most %v", k, gap, wakeMost)
			}
		}
	}
	if slices.Sort(gaps); len(gaps) < wakeNodes*wakeKeys {
		w.Fatalf("%d hand-overs between gateways: nothing was put to the proof", len(gaps))
	}
	w.Logf("%d hand-overs between gateways: half within %v, all within %v; %d subscriptions killed, %d lines lost",
		len(gaps), gaps[len(gaps)/2], gaps[len(gaps)-1], w.killed.Load(), w.deleted.Load())
}
