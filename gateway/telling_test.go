package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/switchcfg"
)

// calls counts how often each hook was called.
type calls struct {
	mu  sync.Mutex
	all map[string]int
}

// panics is a hook that does nothing else.
func panics[T any](c *calls, name string) func(T) {
	return func(T) {
		c.mu.Lock()
		c.all[name]++
		c.mu.Unlock()
		panic("a hook's own fault")
	}
}

func (c *calls) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[name]
}

func (c *calls) sum() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.all {
		n += int64(of)
	}
	return n
}

// document is a source with one document.
type document string

func (d document) Fetch(context.Context) ([]byte, error) { return []byte(d), nil }

// Every hook there is panics every time, on callers' goroutines and on the gateway's own:
// callers get their locks and their verdicts, the loops go on, and each panic is counted and
// logged, once a second at most.
func TestHooksThatPanicChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log, store := &calls{all: map[string]int{}}, new(safeBuffer), gatewaytest.NewStore()
		p := weak()
		p.TTL = 15 * time.Second
		gw, err := gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"c": p}, Stores: map[string]tierlock.Backend{"m": store}, Audit: new(gatewaytest.Audit),
			Logger: slog.New(slog.NewTextHandler(log, nil)), Switch: document(`{"version": 1, "chains": {}}`),
			Hooks: gateway.Hooks{
				Acquired: panics[gateway.AcquireInfo](c, "acquired"), Released: panics[gateway.ReleaseInfo](c, "released"),
				Renewed: panics[gateway.RenewInfo](c, "renewed"), Lost: panics[gateway.LostInfo](c, "lost"),
				Sensed: panics[gateway.SenseInfo](c, "sensed"), Stepped: panics[gateway.StepInfo](c, "stepped"),
				Ordered: panics[gateway.OrderInfo](c, "ordered"), Settled: panics[gateway.SettleInfo](c, "settled"),
				Replaced: panics[gateway.ReplaceInfo](c, "replaced"), Reported: panics[switchcfg.Report](c, "reported"),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		k := one{&gatewaytest.Kit{Gateway: gw, Store: store}, chain(t, gw, "c"), t}

		renewed, lost := k.must("a"), k.must("b")
		ctx := lost.Context(t.Context())
		k.ask("a") // held
		store.Lose("biz:c:lock:b")
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), tierlock.ErrLost) {
			t.Errorf("the lost lock ended by %v", context.Cause(ctx))
		}
		store.Forget()
		time.Sleep(20 * time.Second)
		store.Forget()
		time.Sleep(2 * time.Second)
		k.must("d")
		store.DropReplies(1)
		k.ask("e") // in doubt, and settled
		store.Down(true)
		if tier, v := k.ask("f"); tier != tierlock.Local {
			t.Errorf("down: tier %v, %+v", tier, v)
		}
		store.Down(false)
		eventually(t, 10*time.Second, "normal again", func() bool { return gw.Status().Chains[0].Targets[0].State == degrade.Normal })
		if err := gw.Apply(bypassFor(time.Second, 7)); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if tier, v := k.ask("g"); tier != tierlock.Shared {
			t.Errorf("when the order had ended: tier %v, %+v", tier, v)
		}
		_ = renewed.Unlock(t.Context()) // the store has forgotten it
		if err := gw.Close(t.Context()); err != nil {
			t.Error(err)
		}

		for name, least := range map[string]int{
			"acquired": 7, "released": 4, "renewed": 2, "lost": 2, "sensed": 100, "stepped": 3, "ordered": 2, "settled": 1, "replaced": 1, "reported": 5,
		} {
			if n := c.of(name); n < least {
				t.Errorf("%s was called %d times, want %d at least", name, n, least)
			}
		}
		if counted := gw.Status().HookPanics; counted != c.sum() || counted == 0 {
			t.Errorf("%d counted of %d panics", counted, c.sum())
		}
		lines := strings.Count(log.String(), `level=ERROR msg="hook panicked" hook=`)
		if span := 45; lines < 10 || lines > span {
			t.Errorf("%d lines for %d panics within %d s", lines, c.sum(), span)
		}
		if !strings.Contains(log.String(), `panic="a hook's own fault"`) || !strings.Contains(log.String(), "telling_test.go:") {
			t.Errorf("the log names neither panic nor place: %.2000s", log.String())
		}
	})
}

// Work that panics is its caller's: the panic reaches him, after the lock was given back and
// whatever the hooks do.
func TestThePanicOfTheWorkReachesItsCaller(t *testing.T) {
	c := &calls{all: map[string]int{}}
	bubble(t, weak(), func(t *testing.T, k one) {
		func() {
			defer func() {
				if what := recover(); what != "the work's own fault" {
					t.Errorf("the caller met %v", what)
				}
				if n := k.Store.Keys(); n != 0 {
					t.Errorf("%d keys held when the panic came", n)
				}
			}()
			_ = k.Do(t.Context(), "a", func(context.Context, tierlock.Grant) error { panic("the work's own fault") })
		}()
		if c.of("acquired") != 1 || c.of("released") != 1 || k.Status().HookPanics != 2 {
			t.Errorf("hooks: %v, %d counted", c.all, k.Status().HookPanics)
		}
	}, gateway.Hooks{Acquired: panics[gateway.AcquireInfo](c, "acquired"), Released: panics[gateway.ReleaseInfo](c, "released")})
}

// What comes behind a hook that panics is told all the same, at once and in order.
func TestAHookThatPanicsDoesNotSilenceTheLadder(t *testing.T) {
	var hook heard[degrade.State]
	bubble(t, weak(), func(t *testing.T, k one) {
		k.takeDown()
		k.Store.Mend()
		eventually(t, 10*time.Second, "normal again", func() bool { return k.Status().Chains[0].Targets[0].State == degrade.Normal })
		synctest.Wait() // who found it so has told it
		if told := hook.told(); !slices.Equal(told, []degrade.State{degrade.Down, degrade.Recovering, degrade.Normal}) {
			t.Errorf("told %v", told)
		}
	}, gateway.Hooks{Stepped: func(i gateway.StepInfo) {
		hook.hear(i.To)
		if i.To == degrade.Down {
			panic("a hook's own fault")
		}
	}})
}

// Not a hook alone: a logger that panics on the goroutine of a caller who recovers silences
// the ladder no more than that.
func TestALoggerThatPanicsDoesNotSilenceTheLadder(t *testing.T) {
	var hook heard[degrade.State]
	synctest.Test(t, func(t *testing.T) {
		store := gatewaytest.NewStore()
		gw, err := gateway.New(gateway.Config{
			Chains: map[string]gateway.Policy{"c": weak()}, Stores: map[string]tierlock.Backend{"m": store}, Audit: new(gatewaytest.Audit),
			Logger: slog.New(&tripping{word: "to=down"}), Hooks: gateway.Hooks{Stepped: func(i gateway.StepInfo) { hook.hear(i.To) }},
		})
		if err != nil {
			t.Fatal(err)
		}
		k := one{&gatewaytest.Kit{Gateway: gw, Store: store}, chain(t, gw, "c"), t}
		synctest.Wait() // nobody but the call looks at the store's health now
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the logger's panic did not reach the call that logged")
				}
			}()
			k.takeDown()
		}()
		store.Mend()
		eventually(t, 10*time.Second, "normal again", func() bool { return gw.Status().Chains[0].Targets[0].State == degrade.Normal })
		synctest.Wait()
		if told := hook.told(); !slices.Equal(told, []degrade.State{degrade.Recovering, degrade.Normal}) {
			t.Errorf("told %v", told)
		}
		if err := gw.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// tripping is a handler that panics at the first line with that word.
type tripping struct {
	slog.Handler
	word string
	once sync.Once
}

func (*tripping) Enabled(context.Context, slog.Level) bool { return true }

func (h *tripping) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key+"="+a.Value.String() == h.word {
			h.once.Do(func() { panic("a logger's own fault") })
		}
		return true
	})
	return nil
}

// Orders change on several goroutines at once: documents come, orders run out. The hook is
// told of each in the order in which they were in force, one at a time.
func TestOrdersAreToldInOrder(t *testing.T) {
	const documents = 400
	var told []gateway.OrderInfo // by one at a time, so the race detector judges too
	k := newOne(t, weak(), gateway.Hooks{Ordered: func(i gateway.OrderInfo) {
		told = append(told, i)
		if len(told)%7 == 0 {
			time.Sleep(50 * time.Microsecond) // while more come
		}
	}})
	var mu sync.Mutex
	version := uint64(0)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				mu.Lock()
				version++
				v := version
				mu.Unlock()
				if v > documents {
					return
				}
				span := time.Hour
				if v%3 == 0 {
					span = 2 * time.Millisecond // runs out by itself, beside the next
				}
				_ = k.Apply(bypassFor(span, v)) // one that is overtaken is refused as older
			}
		})
	}
	all.Wait()
	end := switchcfg.Document{Version: documents + 10, Chains: map[string]switchcfg.Directive{}}
	if err := k.Apply(end); err != nil {
		t.Error(err)
	}
	k.End()
	was := degrade.Order{}
	for i, one := range told {
		if one.Was != was {
			t.Fatalf("%d: from version %d, the one before went to %d", i, one.Was.Version, was.Version)
		}
		was = one.Order
	}
	if was != (degrade.Order{}) || len(told) < 100 {
		t.Errorf("%d changes told, the last to version %d", len(told), was.Version)
	}
}

// TestAHookIsCalledWithNoLockHeld has each hook of a change ask for what makes another one.
func TestAHookIsCalledWithNoLockHeld(t *testing.T) {
	var k one
	var orders, steps int
	k = newOne(t, weak(), gateway.Hooks{
		Ordered: func(i gateway.OrderInfo) {
			if orders++; orders < 5 {
				if err := k.Apply(bypassFor(time.Hour, i.Order.Version+1)); err != nil {
					t.Error(err)
				}
			}
		},
		Stepped: func(gateway.StepInfo) {
			steps++
			_, _ = k.TryLock(t.Context(), "down") // meets the store that is down, and steps the ladder
			k.Status()
		},
	})
	called := make(chan struct{})
	go func() {
		defer close(called)
		k.takeDown()
		if err := k.Apply(bypassFor(time.Hour, 1)); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-called:
	case <-time.After(20 * time.Second):
		t.Fatal("a lock is held while a hook is called")
	}
	k.End()
	if orders != 5 || steps == 0 {
		t.Errorf("%d orders and %d steps told", orders, steps)
	}
}
