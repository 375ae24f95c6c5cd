package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// lineUp asks for hold, which another has, and keeps a place in line for it.
func lineUp(t testing.TB, store *redisstore.Store, hold tierlock.Hold) tierlock.Answer {
	t.Helper()
	return lineUpFor(t, store, hold, 20*time.Second)
}

// lineUpFor does so for that long: who waits shortest is the first in line.
func lineUpFor(t testing.TB, store *redisstore.Store, hold tierlock.Hold, wait time.Duration) tierlock.Answer {
	t.Helper()
	ctx, deadline := within(t, 5*time.Second)
	answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: true, WaitTill: time.Now().Add(wait)})
	if err != nil || answer.Status != tierlock.Held {
		t.Fatalf("acquire: %v, %v", answer.Status, err)
	}
	return answer
}

// other is another acquisition of the same key.
func other(hold tierlock.Hold) tierlock.Hold {
	hold.ID = tierlock.NewRequestID()
	return hold
}

// listening waits until so many inboxes are subscribed.
func listening(t testing.TB, boss *redis.Client, inboxes int) {
	t.Helper()
	eventually(t, "the inboxes are subscribed", func() bool {
		channels, err := boss.PubSubChannels(t.Context(), "tierlock:inbox:*").Result()
		return err == nil && len(channels) == inboxes
	})
}

// wakes measures from a release until the Wait of one who stands in line returns; the
// median of many, since a machine may be busy for once.
func wakes(t testing.TB, holder, waiter *redisstore.Store) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 21 {
		first := newHold(t, minute)
		take(t, holder, first, tierlock.Granted)
		second := other(first)
		held := lineUp(t, waiter, second)
		woken := make(chan time.Time, 1)
		go func() {
			ctx, _ := within(t, 5*time.Second)
			_ = waiter.Wait(ctx, second, held)
			woken <- time.Now()
		}()
		time.Sleep(2 * time.Millisecond)
		released := time.Now()
		give(t, holder, first, tierlock.Released)
		took = append(took, (<-woken).Sub(released))
		take(t, waiter, second, tierlock.Granted)
		give(t, waiter, second, tierlock.Released)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func TestAReleaseWakesWhoWaits(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	cfg := redisstore.Config{Addrs: []string{server.Addr()}}
	holder, waiter := open(t, cfg), open(t, cfg)
	for _, store := range []*redisstore.Store{holder, waiter} {
		look(t, store, newHold(t, minute), tierlock.Gone)
	}
	listening(t, boss, 2)
	if took := wakes(t, holder, waiter); took > 20*time.Millisecond {
		t.Errorf("woken %v after the release, want at once", took)
	}

	// Without its subscription it asks by time, and has it again soon.
	if err := boss.Do(t.Context(), "client", "kill", "type", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	listening(t, boss, 2)
	if took := wakes(t, holder, waiter); took > 20*time.Millisecond {
		t.Errorf("after a new subscription woken %v after the release", took)
	}
}

// A server that lets nobody publish frees the key all the same, and who waits tries by time.
func TestALostWordCostsATenthOfASecond(t *testing.T) {
	server := servers.Redis(t)
	rights := slices.Concat(neededCommands, []string{"+zadd", "+zrem", "+zpopmin"})
	store := openAs(t, server, rights)
	if took := wakes(t, store, store); took > 130*time.Millisecond {
		t.Errorf("woken %v after the release, want 125 ms at most", took)
	}
}

// A process that died in line costs nobody its turn: the word goes to the next.
func TestTheDeadAreNotWoken(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	cfg := redisstore.Config{Addrs: []string{server.Addr()}}
	holder, waiter := open(t, cfg), open(t, cfg)
	first := newHold(t, minute)
	take(t, holder, first, tierlock.Granted)
	dead, err := redisstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lineUp(t, dead, other(first))
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	listening(t, boss, 1)
	second := other(first)
	held := lineUp(t, waiter, second)
	listening(t, boss, 2)
	line := "{" + first.Key.String() + "}:wait"
	if n := boss.ZCard(t.Context(), line).Val(); n != 2 {
		t.Fatalf("%d in line, want 2", n)
	}
	if ttl := boss.PTTL(t.Context(), line).Val(); ttl < 10*time.Second || ttl > 22*time.Second {
		t.Errorf("the line lasts for %v", ttl)
	}
	give(t, holder, first, tierlock.Released)
	if n := boss.ZCard(t.Context(), line).Val(); n != 0 {
		t.Errorf("%d are left in line: the next was not told", n)
	}
	ctx, _ := within(t, 5*time.Second)
	if err := waiter.Wait(ctx, second, held); err != nil {
		t.Fatal(err)
	}
	take(t, waiter, second, tierlock.Granted)
}

// Whoever is granted, or handed the lock, stands in line no more.
func TestAGrantLeavesTheLine(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	first := newHold(t, minute)
	line := "{" + first.Key.String() + "}:wait"
	take(t, store, first, tierlock.Granted)
	second, third := other(first), other(first)
	lineUp(t, store, second)
	lineUp(t, store, third)
	ctx, deadline := within(t, 5*time.Second)
	to := tierlock.Request{Hold: second, NotAfter: deadline, Fenced: true, WaitTill: deadline}
	if answer, err := store.Pass(ctx, first, to); err != nil || answer.Status != tierlock.Granted {
		t.Fatal(answer, err)
	}
	if n := boss.ZCard(t.Context(), line).Val(); n != 1 {
		t.Errorf("%d in line after the hand-over, want 1", n)
	}
	if err := boss.Del(t.Context(), first.Key.String()).Err(); err != nil {
		t.Fatal(err)
	}
	answer, err := store.Acquire(ctx, tierlock.Request{Hold: third, NotAfter: deadline, WaitTill: deadline})
	if err != nil || answer.Status != tierlock.Granted {
		t.Fatal(answer, err)
	}
	if n := boss.ZCard(t.Context(), line).Val(); n != 0 {
		t.Errorf("%d in line after the grant, want none", n)
	}
}
