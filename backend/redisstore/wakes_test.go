package redisstore_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// openDeaf is a store whose waiters never ask by time: what wakes them is what is tested.
func openDeaf(t *testing.T, addr string, quiet time.Duration) *redisstore.Store {
	t.Helper()
	store := open(t, redisstore.Config{Addrs: []string{addr}})
	store.Waits(time.Hour, quiet)
	look(t, store, newHold(t, minute), tierlock.Gone) // connects, so the inbox is subscribed
	return store
}

// asleep has hold, which stands in line, wait; the result comes when it ends.
func asleep(t *testing.T, ctx context.Context, store *redisstore.Store, hold tierlock.Hold, held tierlock.Answer) <-chan error { //nolint:revive // t first, as in all helpers
	t.Helper()
	ended := make(chan error, 1)
	held.Remaining = 0 // as if the holder had no end
	go func() { ended <- store.Wait(ctx, hold, held) }()
	eventually(t, "it sleeps", func() bool { return store.Asleep(hold.Key) == 1 || len(ended) > 0 })
	return ended
}

// woken fails unless the wait ends, and with nil.
func woken(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("never woken")
	}
}

func TestEveryReleaseWakesOneWithoutAsking(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	holder, one, two := openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute)
	listening(t, boss, 3)
	first := newHold(t, minute)
	second, third := other(first), other(first)
	take(t, holder, first, tierlock.Granted)
	ofSecond := asleep(t, t.Context(), one, second, lineUp(t, one, second))
	ofThird := asleep(t, t.Context(), two, third, lineUpFor(t, two, third, minute))
	give(t, holder, first, tierlock.Released)
	woken(t, ofSecond)
	take(t, one, second, tierlock.Granted)
	give(t, one, second, tierlock.Released)
	woken(t, ofThird)
}

// Who got the lock by asking stands in line no more: the release wakes somebody who waits.
func TestAHolderIsNotWokenInTheNextOnesPlace(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	holder, one, two := openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute)
	listening(t, boss, 3)
	first := newHold(t, minute)
	second, third := other(first), other(first)
	take(t, holder, first, tierlock.Granted)
	lineUp(t, one, second)
	if err := boss.Del(t.Context(), first.Key.String()).Err(); err != nil {
		t.Fatal(err)
	}
	lined := tierlock.Request{Hold: second, NotAfter: time.Now().Add(attempt), WaitTill: time.Now().Add(minute)}
	if answer, err := one.Acquire(t.Context(), lined); err != nil || answer.Status != tierlock.Granted {
		t.Fatal(answer, err)
	}
	ofThird := asleep(t, t.Context(), two, third, lineUp(t, two, third))
	give(t, one, second, tierlock.Released)
	woken(t, ofThird)
}

// A word that comes when its waiter has left goes on to the next one, in another process.
func TestACancelledWaiterPassesTheWordOn(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	holder, one, two := openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute)
	listening(t, boss, 3)
	for range 20 { // sometimes the word is there before the caller leaves, sometimes after
		first := newHold(t, minute)
		second, third := other(first), other(first)
		take(t, holder, first, tierlock.Granted)
		ctx, leave := context.WithCancel(t.Context())
		ofSecond := asleep(t, ctx, one, second, lineUp(t, one, second))
		ofThird := asleep(t, t.Context(), two, third, lineUp(t, two, third))
		go leave()
		give(t, holder, first, tierlock.Released)
		if err := <-ofSecond; err == nil { // it was woken first, and would have asked
			take(t, one, second, tierlock.Granted)
			give(t, one, second, tierlock.Released)
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		woken(t, ofThird)
	}
}

// leaving is a context that ends as soon as it is asked for its deadline, when the word
// is there already.
type leaving struct {
	context.Context
	word  func()
	ended chan struct{}
}

func (l *leaving) Done() <-chan struct{} { return l.ended }

func (l *leaving) Err() error {
	select {
	case <-l.ended:
		return context.Canceled
	default:
		return nil
	}
}

func (l *leaving) Deadline() (time.Time, bool) {
	if l.Err() == nil {
		l.word()
		close(l.ended)
	}
	return time.Time{}, false
}

func TestAWordAndACancelAtOncePassTheWordOn(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	one, two := openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute)
	listening(t, boss, 2)
	canceled := 0
	for range 40 { // either may be noticed first
		first := newHold(t, minute)
		line := "{" + first.Key.String() + "}:wait"
		take(t, one, first, tierlock.Granted)
		lineUp(t, two, other(first))
		if err := boss.Del(t.Context(), first.Key.String()).Err(); err != nil {
			t.Fatal(err)
		}
		second := other(first)
		ctx := &leaving{t.Context(), func() { one.Hear(second) }, make(chan struct{})}
		if err := one.Wait(ctx, second, tierlock.Answer{Status: tierlock.Held}); err != nil {
			canceled++
			eventually(t, "the next in line is told", func() bool { return boss.ZCard(t.Context(), line).Val() == 0 })
		}
	}
	if canceled == 0 {
		t.Error("the cancel was never noticed first")
	}
}

// A subscription whose server vanished without a word is found out and made anew, and who
// waits asks then.
func TestADeafSubscriptionIsNoticed(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	p := newProxy(t, server.Addr())
	holder, waiter := openDeaf(t, server.Addr(), minute), openDeaf(t, p.addr(), 30*time.Millisecond)
	listening(t, boss, 2)
	first := newHold(t, minute)
	second := other(first)
	take(t, holder, first, tierlock.Granted)
	ended := asleep(t, t.Context(), waiter, second, lineUp(t, waiter, second))
	p.lose.Store(true) // what is sent to it is lost, no connection ends
	give(t, holder, first, tierlock.Released)
	<-time.After(50 * time.Millisecond) // the word is lost for sure
	p.lose.Store(false)
	woken(t, ended)
	take(t, waiter, second, tierlock.Granted)
}

// waitThere makes this program a process that stands in a line until it is killed.
const waitThere = "TIERLOCK_TEST_WAIT_FOR" // "address key"

// A process that was killed in line costs the next one no more than the others' words.
func TestAKilledWaiterIsPassedOver(t *testing.T) {
	if at, key, ok := strings.Cut(os.Getenv(waitThere), " "); ok {
		standThere(t, at, key)
		return
	}
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	holder, waiter := openDeaf(t, server.Addr(), minute), openDeaf(t, server.Addr(), minute)
	listening(t, boss, 2)
	first := newHold(t, minute)
	line := "{" + first.Key.String() + "}:wait"
	take(t, holder, first, tierlock.Granted)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAKilledWaiterIsPassedOver$")
	cmd.Env = append(os.Environ(), waitThere+"="+server.Addr()+" "+first.Key.String())
	in, err := cmd.StdinPipe() // it ends with us, whatever happens
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other process stands in line", func() bool { return boss.ZCard(t.Context(), line).Val() == 1 })
	second := other(first)
	ended := asleep(t, t.Context(), waiter, second, lineUp(t, waiter, second))
	if who := boss.ZRange(t.Context(), line, 0, 0).Val(); len(who) != 1 || boss.ZScore(t.Context(), line, who[0]).Val() > float64(time.Now().Add(15*time.Second).UnixMilli()) {
		t.Fatalf("%v is first in line, want the other process", who)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	listening(t, boss, 2)
	give(t, holder, first, tierlock.Released)
	woken(t, ended)
	take(t, waiter, second, tierlock.Granted)
}

// standThere stands in the line of a key for ten seconds, or until it is told to end.
func standThere(t *testing.T, addr, text string) {
	key, err := tierlock.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	store := open(t, redisstore.Config{Addrs: []string{addr}})
	hold := tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: minute}
	boss := redis.NewClient(&redis.Options{Addr: addr})
	defer boss.Close()
	look(t, store, hold, tierlock.Held)
	listening(t, boss, 3)
	ctx, deadline := within(t, 5*time.Second)
	if answer, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, WaitTill: time.Now().Add(10 * time.Second)}); err != nil || answer.Status != tierlock.Held {
		t.Fatal(answer, err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
