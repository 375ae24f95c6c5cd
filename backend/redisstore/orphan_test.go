package redisstore_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// Redis runs what it was sent while it was frozen, also for clients that have closed their
// sockets. None of it may leave a lock.
func TestFrozenServerLeavesNoLocksOfThoseWhoGaveUp(t *testing.T) {
	const callers = 200
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}, PoolSize: callers, Dial: 5 * time.Second})
	take(t, store, newHold(t, time.Second), tierlock.Granted) // connects, so that requests reach the frozen server
	g := store.Gather(t, newHold(t, minute).Key)
	server.Freeze()
	var sent atomic.Int64
	ended := make(chan []time.Duration)
	go func() {
		ended <- crowd(callers, func() time.Duration {
			_, deadline := within(t, attempt)
			_, err := try(t, store, newHold(t, minute))
			var fault *tierlock.Fault
			if !errors.As(err, &fault) || fault.Reason != tierlock.ReasonAttempt && fault.Reason != tierlock.ReasonSaturated {
				t.Errorf("error %v", err)
			} else if fault.InDoubt {
				sent.Add(1)
			}
			return time.Since(deadline)
		})
	}()
	eventually(t, "a whole batch stands in line", func() bool { return g.InLine() >= redisstore.MaxOps })
	g.Go()
	late := <-ended
	server.Thaw()
	if n := sent.Load(); n < redisstore.MaxOps {
		t.Errorf("%d are in doubt, want the %d of the batch that was sent", n, redisstore.MaxOps)
	}
	look(t, store, newHold(t, minute), tierlock.Gone)

	if keys := locks(t, admin(t, server.Addr())); len(keys) != 0 {
		t.Errorf("%d locks that nobody holds: %.3q …", len(keys), keys)
	}
	// All of them at once lose the processor to each other, so this is no measure of 20 ms;
	// that is the suite's and TestAnswersByTheDeadline's.
	if median := late[len(late)/2]; median > attempt {
		t.Errorf("half of the callers returned more than %v after their deadline", median)
	}
}

func TestRequestDeliveredAfterNotAfterIsRefused(t *testing.T) {
	server := servers.Redis(t)
	link := newProxy(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{link.addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted) // connects

	hold := newHold(t, minute)
	deliver := link.holdRequests()
	_, err := try(t, store, hold)
	wantFault(t, err, tierlock.ReasonAttempt, true)
	before := scriptsRun(t, admin(t, server.Addr()))
	deliver()
	eventually(t, "the request reaches the server", func() bool { return scriptsRun(t, admin(t, server.Addr())) > before })
	look(t, store, hold, tierlock.Gone)
}

func TestLostReplyIsAnsweredMineToTheSameID(t *testing.T) {
	server := servers.Redis(t)
	link := newProxy(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{link.addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted) // connects

	hold := newHold(t, minute)
	link.lose.Store(true)
	_, err := try(t, store, hold)
	wantFault(t, err, tierlock.ReasonAttempt, true)
	link.lose.Store(false)

	token, err := admin(t, server.Addr()).Get(t.Context(), "{"+hold.Key.String()+"}:fence").Uint64()
	if err != nil {
		t.Fatal(err)
	}
	mine := take(t, store, hold, tierlock.Mine)
	if mine.Token != tierlock.Token(token) {
		t.Errorf("token %d, minted at first: %d", mine.Token, token)
	}
	take(t, store, tierlock.Hold{Key: hold.Key, ID: tierlock.NewRequestID(), TTL: minute}, tierlock.Held)
	give(t, store, hold, tierlock.Released)
}

func TestResetConnectionLeavesTheAcquireInDoubt(t *testing.T) {
	server := servers.Redis(t)
	link := newProxy(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{link.addr()}})
	take(t, store, newHold(t, minute), tierlock.Granted) // connects

	hold := newHold(t, minute)
	deliver := link.holdRequests()
	defer deliver()
	failed := make(chan error)
	go func() {
		ctx, deadline := within(t, 5*time.Second)
		_, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline})
		failed <- err
	}()
	eventually(t, "the request is under way", func() bool { return link.held.Load() > 0 })
	link.cut()
	wantFault(t, <-failed, tierlock.ReasonBroken, true)
}

// crowd runs ask n times at once and returns the results in order.
func crowd(n int, ask func() time.Duration) []time.Duration {
	results := make([]time.Duration, n)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = ask() })
	}
	all.Wait()
	slices.Sort(results)
	return results
}

// locks lists the keys of this package's holds in a server, but for those of a second.
func locks(t *testing.T, client *redis.Client) (keys []string) {
	t.Helper()
	for _, key := range client.Keys(t.Context(), "biz:test:lock:*").Val() {
		if client.PTTL(t.Context(), key).Val() > time.Second {
			keys = append(keys, key)
		}
	}
	return keys
}

// scriptsRun counts the scripts that a server has run by name.
func scriptsRun(t *testing.T, client *redis.Client) string {
	t.Helper()
	return client.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha")
}
