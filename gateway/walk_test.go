package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
)

// TestRandomWalk lets callers come and go while the store fails in every way and operators
// flip, and holds the guarantees all along: no shared and local hold on one key at once, at
// most permits local holders, one shared holder, every answer in time, every grant with its
// end in the trail, and nothing left at the end. A failing seed prints its script.
func TestRandomWalk(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			p := weak()
			p.TTL, p.Local.Permits = 15*time.Second, 2
			if seed%2 == 0 {
				p.Ladder.OnSaturated = degrade.FallbackCoalesce
			}
			var steps heard[gateway.StepInfo]
			bubble(t, p, func(t *testing.T, k one) { walk(t, k, seed) }, gateway.Hooks{Stepped: steps.hear})
			contiguous(t, steps.told())
		})
	}
}

// contiguous checks that no change of health was lost on its way to the hook, told twice or
// out of order.
func contiguous(t *testing.T, steps []gateway.StepInfo) {
	t.Helper()
	was := degrade.Transition{To: degrade.Normal}
	for _, s := range steps {
		if s.Epoch != was.Epoch+1 || s.From != was.To || was.Epoch > 0 && s.Dwell != s.At.Sub(was.At) {
			t.Errorf("%+v after %+v", s.Transition, was)
		}
		was = s.Transition
	}
	if len(steps) < 10 {
		t.Errorf("%d changes of health", len(steps))
	}
}

type walker struct {
	mu       sync.Mutex
	shared   map[string]int
	local    map[string]int
	grants   map[tierlock.RequestID]bool
	problems []string
}

func (w *walker) enter(l *gateway.Lock, id string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch l.Grant().Tier {
	case tierlock.Shared:
		w.shared[id] += by
	case tierlock.Local:
		w.local[id] += by
	}
	w.grants[l.Grant().RequestID] = true
	if w.shared[id] > 1 || w.local[id] > 2 || w.shared[id] > 0 && w.local[id] > 0 {
		w.problems = append(w.problems, fmt.Sprintf("key %s: %d shared and %d local holders", id, w.shared[id], w.local[id]))
	}
}

func walk(t *testing.T, k one, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	waits := []func(context.Context, string, ...gateway.Option) (*gateway.Lock, error){k.Lock, k.Lock, k.TryLock}
	w := &walker{shared: map[string]int{}, local: map[string]int{}, grants: map[tierlock.RequestID]bool{}}
	var script []string
	step := func(format string, args ...any) { script = append(script, fmt.Sprintf(format, args...)) }
	var all sync.WaitGroup
	for range 400 {
		switch rng.IntN(12) {
		case 0:
			step("down")
			k.Store.Down(true)
		case 1:
			step("hang")
			k.Store.Hang(true)
		case 2:
			d := time.Duration(rng.IntN(400)) * time.Millisecond
			step("slow %v", d)
			k.Store.Slow(d)
		case 3:
			step("saturate")
			k.Store.Saturate(true)
		case 4:
			step("drop 3 replies")
			k.Store.DropReplies(3)
		case 5, 6:
			step("mend")
			k.Store.Mend()
		case 7:
			mode := tierlock.Mode(1 + rng.IntN(6))
			step("force %v", mode)
			k.Force("c", mode)
		default:
			id, hold := fmt.Sprint("k", rng.IntN(5)), time.Duration(rng.IntN(1500))*time.Millisecond
			step("lock %s for %v", id, hold)
			lock := waits[rng.IntN(len(waits))]
			all.Go(func() { w.caller(t, lock, id, hold) })
		}
		pause := time.Duration(rng.IntN(800)) * time.Millisecond
		step("sleep %v", pause)
		time.Sleep(pause)
	}
	k.Store.Mend()
	k.Force("c", tierlock.ModeAuto)
	all.Wait()
	time.Sleep(20 * time.Second)
	w.after(t, k)
	if t.Failed() {
		t.Log("script:\n" + strings.Join(script, "\n"))
	}
}

// caller locks id, works while its context lives, and unlocks.
func (w *walker) caller(t *testing.T, lock func(context.Context, string, ...gateway.Option) (*gateway.Lock, error), id string, hold time.Duration) {
	began := time.Now()
	l, err := lock(t.Context(), id)
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("lock %s answered %v after %v", id, err, took)
	}
	if err != nil {
		return
	}
	w.enter(l, id, 1)
	select {
	case <-time.After(hold):
	case <-l.Context(t.Context()).Done():
	}
	w.enter(l, id, -1)
	began = time.Now()
	_ = l.Unlock(t.Context())
	if took := time.Since(began); took > 220*time.Millisecond {
		t.Errorf("unlock %s took %v", id, took)
	}
}

// after holds what must be so when everything is over.
func (w *walker) after(t *testing.T, k one) {
	for _, problem := range w.problems {
		t.Error(problem)
	}
	s := k.Status()
	if k.Store.Keys() != 0 || s.InDoubt != 0 || s.Chains[0].Live != 0 || s.Chains[0].Local != 0 {
		t.Errorf("left: %d keys, %d in doubt, %d live, %d local", k.Store.Keys(), s.InDoubt, s.Chains[0].Live, s.Chains[0].Local)
	}
	begun, ended := map[tierlock.RequestID]int{}, map[tierlock.RequestID]int{}
	for _, ev := range k.Audit.Events() {
		switch ev.Type {
		case audit.TypeAcquire:
			begun[ev.ID]++
		case audit.TypeEnd:
			ended[ev.ID]++
		}
	}
	for id := range w.grants {
		if begun[id] != 1 || ended[id] != 1 {
			t.Errorf("a grant has %d acquire and %d end events", begun[id], ended[id])
		}
	}
}
