package gateway_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

func TestLockAllTakesEveryOneOnce(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		locks, err := k.LockAll(t.Context(), []string{"c", "a", "b", "a"})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		tokens := map[tierlock.Token]bool{}
		for _, g := range locks.Grants() {
			keys, tokens[g.Token] = append(keys, g.Key.String()), true
		}
		if !slices.Equal(keys, []string{"biz:c:lock:a", "biz:c:lock:b", "biz:c:lock:c"}) || len(tokens) != 3 || tokens[0] {
			t.Errorf("keys %v, tokens %v", keys, tokens)
		}
		if err := locks.Renew(t.Context(), 5*time.Minute); err != nil {
			t.Error(err)
		}
		for _, g := range locks.Grants() {
			if time.Until(g.ExpiresAt) < 4*time.Minute {
				t.Errorf("%v ends in %v", g.Key, time.Until(g.ExpiresAt))
			}
		}
		ctx := locks.Context(t.Context())
		inner, err := k.LockAll(ctx, []string{"b", "c"}) // entered, not waited for
		if err != nil {
			t.Fatal(err)
		}
		locks.Report(audit.Committed)
		if err := errors.Join(inner.Unlock(ctx), locks.Unlock(t.Context()), locks.Unlock(t.Context())); err != nil || k.Store.Keys() != 0 {
			t.Errorf("unlock: %v, %d keys left", err, k.Store.Keys())
		}
		if !errors.Is(context.Cause(ctx), gateway.ErrUnlocked) {
			t.Errorf("the context ended by %v", context.Cause(ctx))
		}
	})
}

func TestTheContextOfAllEndsWithTheFirstThatIsLost(t *testing.T) {
	p := strong()
	p.TTL = 15 * time.Second
	bubble(t, p, func(t *testing.T, k one) {
		locks, err := k.LockAll(t.Context(), []string{"a", "b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		ctx := locks.Context(t.Context())
		k.Store.Lose("biz:c:lock:c")
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), tierlock.ErrLost) {
			t.Errorf("ended by %v", context.Cause(ctx))
		}
		if err := locks.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) || k.Store.Keys() != 0 {
			t.Errorf("unlock: %v, %d keys left", err, k.Store.Keys())
		}
	})
}

// A failure leaves nothing, whatever it was.
func TestLockAllIsAllOrNothing(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(k one)
		opts   []gateway.Option
		want   error
	}{
		"one is held, no wait": {func(k one) { k.must("b") }, []gateway.Option{gateway.WithWait(0)}, tierlock.ErrHeld},
		"one stays held":       {func(k one) { k.must("b") }, nil, tierlock.ErrHeld},
		"the last stays held":  {func(k one) { k.must("d") }, nil, tierlock.ErrHeld},
		"a reply is lost":      {func(k one) { k.Store.DropReplies(1) }, nil, tierlock.ErrSystem},
		"the store hangs": {func(k one) {
			time.AfterFunc(50*time.Millisecond, func() { k.Store.Hang(true) })
			k.must("d")
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, strong(), func(t *testing.T, k one) {
				c.breaks(k)
				before := k.Store.Keys()
				began := time.Now()
				locks, err := k.LockAll(t.Context(), []string{"a", "b", "c", "d"}, c.opts...)
				if took := time.Since(began); took > 320*time.Millisecond {
					t.Errorf("took %v of a wait of 300 ms", took)
				}
				if locks != nil || err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("%v, %v", locks, err)
				}
				time.Sleep(time.Millisecond)
				k.Store.Mend()
				eventually(t, 10*time.Second, "nothing is in doubt", func() bool { return k.Status().InDoubt == 0 })
				if n := k.Store.Keys(); n != before {
					t.Errorf("%d keys, want %d", n, before)
				}
			})
		})
	}
}

func TestLockAllWaitsForWhatIsHeld(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		first, second := k.must("b"), k.must("d")
		time.AfterFunc(100*time.Millisecond, func() { _ = first.Unlock(t.Context()) })
		time.AfterFunc(200*time.Millisecond, func() { _ = second.Unlock(t.Context()) })
		time.AfterFunc(50*time.Millisecond, func() { // behind the one that is waited for nothing is kept
			if l, err := k.TryLock(t.Context(), "c"); err != nil {
				t.Errorf("c: %v", err)
			} else {
				_ = l.Unlock(t.Context())
			}
		})
		locks, err := k.LockAll(t.Context(), []string{"a", "b", "c", "d"}, gateway.WithWait(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := locks.Unlock(t.Context()); err != nil || k.Store.Keys() != 0 {
			t.Errorf("unlock: %v, %d keys left", err, k.Store.Keys())
		}
	})
}

// Crowds that want overlapping sets in any order: all of them get through, none in a circle.
func TestLockAllHasNoDeadlock(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		var all sync.WaitGroup
		var mu sync.Mutex
		inside := map[string]int{}
		got := 0
		for w := range 12 {
			all.Go(func() {
				ids := []string{strconv.Itoa(w % 5), strconv.Itoa((w + 3) % 5), strconv.Itoa((w + 1) % 5)}
				for range 20 {
					locks, err := k.LockAll(t.Context(), ids, gateway.WithWait(2*time.Second))
					if err != nil {
						if !errors.Is(err, tierlock.ErrHeld) {
							t.Error(err)
						}
						continue
					}
					mu.Lock()
					got++
					for _, id := range ids {
						if inside[id]++; inside[id] > 1 {
							t.Errorf("%d inside %s", inside[id], id)
						}
					}
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					for _, id := range ids {
						inside[id]--
					}
					mu.Unlock()
					if err := locks.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if got < 12*20*9/10 {
			t.Errorf("%d of %d got through within 2 s each", got, 12*20)
		}
		eventually(t, 10*time.Second, "nothing is in doubt", func() bool { return k.Status().InDoubt == 0 })
		if n := k.Store.Keys(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

func TestLockAllIsRefusedBeforeAnyIO(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		many := make([]string, 129)
		for i := range many {
			many[i] = strconv.Itoa(i)
		}
		for what, c := range map[string]struct {
			ids  []string
			opts []gateway.Option
			says string
		}{
			"none":          {nil, nil, "want 1 to 128"},
			"too many":      {many, nil, "want 1 to 128"},
			"two bad ids":   {[]string{"a", "b b", "c\n"}, nil, "0x0a"},
			"an empty id":   {[]string{"a", ""}, nil, "want an id"},
			"a re-entry":    {[]string{"a"}, []gateway.Option{gateway.Reenter(tierlock.NewRequestID())}, "names one lock"},
			"a ttl too low": {[]string{"a"}, []gateway.Option{gateway.WithTTL(time.Millisecond)}, "ttl"},
		} {
			locks, err := k.LockAll(t.Context(), c.ids, c.opts...)
			if locks != nil || !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, %v", what, locks, err)
			}
		}
		if n := k.Store.Counts().Acquire; n != 0 {
			t.Errorf("%d questions", n)
		}
	})
	var none *gateway.Locks
	if err := none.Unlock(t.Context()); err != nil || none.Grants() != nil || none.Context(t.Context()) != t.Context() {
		t.Error("no locks are something")
	}
}

func TestLockAllOnARealRedis(t *testing.T) {
	servers.Need(t, "redis-server")
	server := servers.Redis(t)
	g, _ := onRedis(t, server.Addr())
	orders := chain(t, g, "order")
	warm(t, orders)
	ids := make([]string, 128)
	for i := range ids {
		ids[i] = "line" + strconv.Itoa(i)
	}
	locks, err := orders.LockAll(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[tierlock.Token]bool{}
	for _, grant := range locks.Grants() {
		tokens[grant.Token] = true
	}
	boss := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = boss.Close() }()
	if n := len(boss.Keys(t.Context(), "biz:order:lock:line*").Val()); n != len(ids) || tokens[0] {
		t.Errorf("%d keys, a token per id: %v", n, !tokens[0])
	}
	if _, err := orders.LockAll(t.Context(), []string{"free", "line7"}, gateway.WithWait(50*time.Millisecond)); !errors.Is(err, tierlock.ErrHeld) {
		t.Errorf("one is held: %v", err)
	}
	if err := locks.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	waitFor(t, "nothing is left", func() bool { return len(redisKeys(t, server.Addr())) == 0 })
}
