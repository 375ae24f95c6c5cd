package localfallback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/tierlock/tierlock"
)

func newTable(t testing.TB, cfg Config) *Table {
	t.Helper()
	table, err := NewTable(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	return table
}

// inBubble runs test with a table on a clock that moves when all sleep.
func inBubble(t *testing.T, cfg Config, test func(*testing.T, *Table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		table, err := NewTable(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		test(t, table)
	})
}

func holdOf(t testing.TB, key string, ttl time.Duration) tierlock.Hold {
	t.Helper()
	k, err := tierlock.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return tierlock.Hold{Key: k, ID: tierlock.NewRequestID(), TTL: ttl}
}

func take(t testing.TB, table *Table, hold tierlock.Hold, want tierlock.Status) tierlock.Answer {
	t.Helper()
	answer, err := table.Acquire(t.Context(), tierlock.Request{Hold: hold})
	if err != nil || answer.Status != want {
		t.Fatalf("acquire %s: %v, %v, want %v", hold.Key, answer.Status, err, want)
	}
	return answer
}

func give(t testing.TB, table *Table, hold tierlock.Hold, want tierlock.Status) {
	t.Helper()
	answer, err := table.Release(t.Context(), hold)
	if err != nil || answer.Status != want {
		t.Fatalf("release %s: %v, %v, want %v", hold.Key, answer.Status, err, want)
	}
}

// wantCounts checks the counters against the cache itself.
func wantCounts(t testing.TB, table *Table, live, idle int64) {
	t.Helper()
	if table.live.Load() != live || table.all.Load() != live+idle || int64(table.records.EstimatedSize()) != live+idle {
		t.Errorf("live %d, all %d of %d records, want %d and %d more", table.live.Load(), table.all.Load(), table.records.EstimatedSize(), live, idle)
	}
}

func TestFullTableRefusesNewKeysAndKeepsItsHolders(t *testing.T) {
	table := newTable(t, Config{Permits: 1, Keys: 100})
	holds := make([]tierlock.Hold, 100)
	for i := range holds {
		holds[i] = holdOf(t, fmt.Sprint("k", i), time.Minute)
		take(t, table, holds[i], tierlock.Granted)
	}
	for i := range 1000 {
		_, err := table.Acquire(t.Context(), tierlock.Request{Hold: holdOf(t, fmt.Sprint("more", i), time.Minute)})
		var fault *tierlock.Fault
		if !errors.As(err, &fault) || fault.Reason != tierlock.ReasonFull || fault.InDoubt {
			t.Fatalf("key 101: %v, want reason full", err)
		}
	}
	for _, hold := range holds {
		take(t, table, hold, tierlock.Mine)
		take(t, table, tierlock.Hold{Key: hold.Key, ID: tierlock.NewRequestID(), TTL: time.Minute}, tierlock.Held)
	}
	give(t, table, holds[0], tierlock.Released)
	take(t, table, holdOf(t, "more", time.Minute), tierlock.Granted)
	if table.Live() != 100 {
		t.Errorf("live %d", table.Live())
	}
}

func TestHardEndIsNotMovedByRenewals(t *testing.T) {
	inBubble(t, Config{Permits: 1}, func(t *testing.T, table *Table) {
		hold := holdOf(t, "k", 10*time.Second)
		end := take(t, table, hold, tierlock.Granted).Until
		if left := time.Until(end); left != 10*time.Second {
			t.Errorf("granted for %v", left)
		}
		for range 9 {
			time.Sleep(time.Second)
			hold.TTL = time.Hour
			answers, err := table.Renew(t.Context(), []tierlock.Hold{hold})
			if err != nil || answers[0].Status != tierlock.Mine || !answers[0].Until.Equal(end) {
				t.Fatalf("renewed: %+v, %v, want the end of the grant", answers[0], err)
			}
		}
		time.Sleep(time.Second - time.Nanosecond)
		take(t, table, holdOf(t, "k", time.Second), tierlock.Held)
		time.Sleep(time.Nanosecond)
		give(t, table, hold, tierlock.Gone)
		take(t, table, holdOf(t, "k", time.Second), tierlock.Granted)
	})
}

func TestExpiredHoldersLeaveTheMemory(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, table *Table) {
		for i := range 5000 {
			take(t, table, holdOf(t, fmt.Sprint("k", i), 10*time.Second), tierlock.Granted)
		}
		table.records.CleanUp() // applies the writes, so that the sizes can be compared
		wantCounts(t, table, 5000, 0)
		time.Sleep(10*time.Second - time.Nanosecond)
		wantCounts(t, table, 5000, 0)
		time.Sleep(4 * time.Second) // linger, the cache's coarse clock, two of its ticks
		wantCounts(t, table, 0, 0)
	})
}

func TestReleasedKeysLeaveTheMemory(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, table *Table) {
		for i := range 3 * maxIdle {
			hold := holdOf(t, fmt.Sprint("k", i), 10*time.Second)
			take(t, table, hold, tierlock.Granted)
			give(t, table, hold, tierlock.Released)
		}
		table.records.CleanUp()
		wantCounts(t, table, 0, maxIdle)
		time.Sleep(15 * time.Second)
		wantCounts(t, table, 0, 0)
	})
}

// Grants, releases and expiries of many goroutines on few keys; afterwards the counters
// agree with the records, and with none at all once all has ended.
func TestCountersStayExactUnderLoad(t *testing.T) {
	inBubble(t, Config{Permits: 2, Keys: 20}, func(t *testing.T, table *Table) {
		var all sync.WaitGroup
		for worker := range 16 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(7, uint64(worker)))
				for range 500 {
					hold := holdOf(t, fmt.Sprint("k", random.IntN(30)), time.Duration(1+random.IntN(3000))*time.Millisecond)
					answer, err := table.Acquire(t.Context(), tierlock.Request{Hold: hold})
					if err == nil && answer.Status == tierlock.Granted && random.IntN(2) == 0 {
						if _, err := table.Release(t.Context(), hold); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				}
			})
		}
		all.Wait()
		table.records.CleanUp()
		wantCounts(t, table, table.live.Load(), table.all.Load()-table.live.Load())
		if live := table.Live(); live < 0 || live > 20 {
			t.Errorf("live %d", live)
		}
		time.Sleep(10 * time.Second)
		wantCounts(t, table, 0, 0)
	})
}

// With as many idle records as are kept, each release drops its record while others are at
// it: nobody may be granted a key on a record that has left, beside the one that took its
// place.
func TestNoGrantIsLostWhileRecordsComeAndGo(t *testing.T) {
	table := newTable(t, Config{Permits: 1})
	for i := range maxIdle {
		hold := holdOf(t, fmt.Sprint("idle", i), time.Minute)
		take(t, table, hold, tierlock.Granted)
		give(t, table, hold, tierlock.Released)
	}
	var inside [2]atomic.Int64
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 2000 {
				hold := holdOf(t, fmt.Sprint("k", i%len(inside)), time.Minute)
				if answer, err := table.Acquire(t.Context(), tierlock.Request{Hold: hold}); err != nil || answer.Status != tierlock.Granted {
					continue
				}
				granted.Add(1)
				if n := inside[i%len(inside)].Add(1); n != 1 {
					t.Errorf("%d holders of one permit", n)
				}
				runtime.Gosched()
				inside[i%len(inside)].Add(-1)
				if answer, _ := table.Release(t.Context(), hold); answer.Status != tierlock.Released {
					t.Errorf("release of a grant: %v", answer.Status)
				}
			}
		})
	}
	all.Wait()
	table.records.CleanUp()
	wantCounts(t, table, 0, table.all.Load())
	if granted.Load() < 100 {
		t.Errorf("%d grants are no crowd", granted.Load())
	}
}

func TestHolderThatIsAloneStaysAlone(t *testing.T) {
	table := newTable(t, Config{Permits: 1})
	alone := holdOf(t, "k", time.Minute)
	if a := take(t, table, alone, tierlock.Granted); !a.Exclusive {
		t.Error("the only permit, yet not exclusive")
	}
	table.Permit(3)
	take(t, table, holdOf(t, "k", time.Minute), tierlock.Held)
	if a := take(t, table, alone, tierlock.Mine); !a.Exclusive {
		t.Error("no longer exclusive")
	}
	give(t, table, alone, tierlock.Released)
	for range 3 {
		if a := take(t, table, holdOf(t, "k", time.Minute), tierlock.Granted); a.Exclusive {
			t.Error("exclusive among three")
		}
	}
	take(t, table, holdOf(t, "k", time.Minute), tierlock.Held)
}

func TestFewerPermitsPutNobodyOut(t *testing.T) {
	table := newTable(t, Config{Permits: 2})
	first, second := holdOf(t, "k", time.Minute), holdOf(t, "k", time.Minute)
	take(t, table, first, tierlock.Granted)
	take(t, table, second, tierlock.Granted)
	table.Permit(0) // counts as 1
	take(t, table, first, tierlock.Mine)
	give(t, table, first, tierlock.Released)
	take(t, table, holdOf(t, "k", time.Minute), tierlock.Held)
	give(t, table, second, tierlock.Released)
	if a := take(t, table, holdOf(t, "k", time.Minute), tierlock.Granted); !a.Exclusive {
		t.Error("the only permit, yet not exclusive")
	}
}

func TestHoldsTellsTheLastEnd(t *testing.T) {
	inBubble(t, Config{Permits: 2}, func(t *testing.T, table *Table) {
		short, long := holdOf(t, "k", time.Second), holdOf(t, "k", time.Minute)
		if _, ok := table.Holds(short.Key); ok {
			t.Error("holds a key that nobody asked for")
		}
		take(t, table, short, tierlock.Granted)
		take(t, table, long, tierlock.Granted)
		if until, ok := table.Holds(short.Key); !ok || time.Until(until) != time.Minute {
			t.Errorf("until %v, %t", time.Until(until), ok)
		}
		give(t, table, long, tierlock.Released)
		if until, ok := table.Holds(short.Key); !ok || time.Until(until) != time.Second {
			t.Errorf("until %v, %t", time.Until(until), ok)
		}
		time.Sleep(time.Second)
		if _, ok := table.Holds(short.Key); ok || table.Live() != 0 {
			t.Errorf("holds an expired key; live %d", table.Live())
		}
	})
}

func TestWaitEndsWithTheFirstHolder(t *testing.T) {
	inBubble(t, Config{Permits: 2}, func(t *testing.T, table *Table) {
		take(t, table, holdOf(t, "k", 10*time.Second), tierlock.Granted)
		take(t, table, holdOf(t, "k", 3*time.Second), tierlock.Granted)
		next := holdOf(t, "k", time.Second)
		held := take(t, table, next, tierlock.Held)
		if held.Remaining != 3*time.Second {
			t.Errorf("remaining %v", held.Remaining)
		}
		began := time.Now()
		if err := table.Wait(t.Context(), next, held); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("waited %v, %v", time.Since(began), err)
		}
		take(t, table, next, tierlock.Granted)
	})
}

func TestWaitersAreWokenByARelease(t *testing.T) {
	inBubble(t, Config{Permits: 1}, func(t *testing.T, table *Table) {
		holder := holdOf(t, "k", 10*time.Second)
		take(t, table, holder, tierlock.Granted)
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := table.Wait(t.Context(), holdOf(t, "k", time.Second), tierlock.Answer{}); err != nil || time.Since(began) != time.Second {
					t.Errorf("waited %v, %v", time.Since(began), err)
				}
			})
		}
		time.Sleep(time.Second)
		give(t, table, holder, tierlock.Released)
		all.Wait()
	})
}

// A caller who leaves waits no longer, though the holder stays, and takes nobody's place.
func TestWaitEndsWithItsCaller(t *testing.T) {
	inBubble(t, Config{Permits: 1}, func(t *testing.T, table *Table) {
		holder, waiter := holdOf(t, "k", 10*time.Second), holdOf(t, "k", 10*time.Second)
		take(t, table, holder, tierlock.Granted)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		began := time.Now()
		go func() { left <- table.Wait(ctx, waiter, tierlock.Answer{}) }()
		time.Sleep(time.Second)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		give(t, table, holder, tierlock.Released)
		take(t, table, waiter, tierlock.Granted)
	})
}

func TestWaitHeedsADeadlineThatFiresNothing(t *testing.T) {
	inBubble(t, Config{Permits: 1}, func(t *testing.T, table *Table) {
		take(t, table, holdOf(t, "k", 10*time.Second), tierlock.Granted)
		began := time.Now()
		ctx := tierlock.Until(t.Context(), began.Add(300*time.Millisecond))
		if err := table.Wait(ctx, holdOf(t, "k", time.Second), tierlock.Answer{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 300*time.Millisecond {
			t.Errorf("waited %v, %v", time.Since(began), err)
		}
	})
}

func TestAcquireUnderAnEndedContextGrantsNothing(t *testing.T) {
	table := newTable(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hold := holdOf(t, "k", time.Minute)
	_, err := table.Acquire(ctx, tierlock.Request{Hold: hold})
	var fault *tierlock.Fault
	if !errors.As(err, &fault) || fault.Reason != tierlock.ReasonCanceled || fault.InDoubt {
		t.Errorf("error %v", err)
	}
	take(t, table, hold, tierlock.Granted)
	if answer, err := table.Release(ctx, hold); err != nil || answer.Status != tierlock.Released {
		t.Errorf("release: %v, %v", answer.Status, err)
	}
}

func TestTableRefusesBadInput(t *testing.T) {
	if _, err := NewTable(Config{Permits: -1, Keys: -1}); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("config: %v", err)
	}
	table := newTable(t, Config{})
	if _, err := table.Acquire(t.Context(), tierlock.Request{Hold: holdOf(t, "k", 0)}); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("ttl 0: %v", err)
	}
	table.Close() // twice, with the cleanup
}

// TestAStepOfTheWallClockMovesNoEnd takes the wall clock an hour back and ahead under a hold: it
// neither ends early nor lasts longer. Not in a bubble, whose clock has no monotonic reading.
func TestAStepOfTheWallClockMovesNoEnd(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		table := newTable(t, Config{Permits: 1})
		took := time.Now()
		take(t, table, holdOf(t, "k", 10*time.Minute), tierlock.Granted)
		table.clock.start = stepped(table.clock.start, step) // as if the wall clock had gone the other way since
		other := take(t, table, holdOf(t, "k", time.Second), tierlock.Held)
		if least := 10*time.Minute - time.Since(took); other.Remaining < least || other.Remaining > 10*time.Minute {
			t.Errorf("a step of %v: held for %v more", step, other.Remaining)
		}
	}
}

// stepped is at with a wall clock that shows d more, and the monotonic reading it had. The
// package time gives no such thing, since no program steps clocks: the seconds of the wall
// clock lie above the 30 bits of nanoseconds in the first word of a Time with both readings.
func stepped(at time.Time, d time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) += uint64(int64(d/time.Second) << 30)
	return at
}
