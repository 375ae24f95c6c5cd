package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/backendtest"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// Without a replica the sentinels have nobody to promote, so the master may hang for as
// long as the suite wants.
func TestStoreKeepsTheContractBehindSentinels(t *testing.T) {
	t.Parallel()
	w := servers.Sentinels(t, 0)
	store := open(t, redisstore.Config{Addrs: w.Addrs(), Sentinel: &redisstore.SentinelConfig{Master: w.Name}})
	backendtest.Run(t, "redis-server "+version(t, w.Master(t))+" behind 3 sentinels", store, backendtest.Options{
		Hang: func(*testing.T) func() {
			w.Nodes[0].Freeze()
			return w.Nodes[0].Thaw
		},
	})
}

func behind(sentinels ...*fakeSentinel) redisstore.Config {
	cfg := redisstore.Config{Sentinel: &redisstore.SentinelConfig{Master: "main"}}
	for _, s := range sentinels {
		cfg.Addrs = append(cfg.Addrs, s.addr)
	}
	return cfg
}

// Of sentinels that disagree the one with the higher epoch knows more. Once it was heard,
// those that know less are not believed, whatever becomes of it.
func TestSentinelWithTheHighestEpochIsBelieved(t *testing.T) {
	old, next := miniredis.RunT(t), miniredis.RunT(t)
	slow, quick := newFakeSentinel(t, old.Addr(), 7), newFakeSentinel(t, next.Addr(), 8)
	store := open(t, behind(slow, quick, newFakeSentinel(t, old.Addr(), 7)))
	hold := newHold(t, minute)
	take(t, store, hold, tierlock.Granted)
	if !next.Exists(hold.Key.String()) || old.Exists(hold.Key.String()) {
		t.Fatal("it went to the master of before")
	}
	quick.told.Store(&told{old.Addr(), 6})
	for range 3 {
		next.SetError("LOADING x") // so that it looks again
		_, _ = try(t, store, newHold(t, minute))
		next.SetError("")
		after(t, quick.asked)
	}
	look(t, store, hold, tierlock.Mine)

	slow.told.Store(&told{old.Addr(), 9})
	eventually(t, "the newest is believed", func() bool {
		other := newHold(t, minute)
		_, _ = try(t, store, other)
		return old.Exists(other.Key.String())
	})
}

func TestPushOfASentinelIsLookedInto(t *testing.T) {
	old, next := miniredis.RunT(t), miniredis.RunT(t)
	s := newFakeSentinel(t, old.Addr(), 1)
	store := open(t, behind(s))
	take(t, store, newHold(t, minute), tierlock.Granted)
	eventually(t, "it listens", func() bool { return s.push() == 1 })
	for n := range 3 { // a look each, where the clock alone would give one a second
		s.told.Store(&told{[]string{next.Addr(), old.Addr()}[n%2], n + 2})
		asked, began := s.asked(), time.Now()
		s.push()
		eventually(t, "it looks", func() bool { return s.asked() > asked })
		if took := time.Since(began); took > 700*time.Millisecond {
			t.Errorf("it looked %v after the push", took)
		}
	}
}

func TestSentinelsThatKnowNoMasterAreDown(t *testing.T) {
	s := newFakeSentinel(t, "", 0)
	store := open(t, behind(s))
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDown, false)
	if !strings.Contains(err.Error(), "no such master") || !strings.Contains(err.Error(), s.addr) {
		t.Errorf("error %v", err)
	}
	s.told.Store(&told{miniredis.RunT(t).Addr(), 1})
	take(t, store, newHold(t, minute), tierlock.Granted)
}

// A sentinel that takes connections and says nothing makes nobody late, at the start
// neither, as long as another answers.
func TestSilentSentinelMakesNobodyLate(t *testing.T) {
	silent := newProxy(t, newFakeSentinel(t, "", 0).addr)
	silent.lose.Store(true)
	cfg := behind(newFakeSentinel(t, miniredis.RunT(t).Addr(), 1))
	cfg.Addrs = append([]string{silent.addr()}, cfg.Addrs...)
	store := open(t, cfg)
	if answer, err := try(t, store, newHold(t, minute)); err != nil || answer.Status != tierlock.Granted {
		t.Errorf("%v, %v", answer.Status, err)
	}
}

// What is known of one server's clock says nothing of the next master's.
func TestPromotedMasterHasAClockOfItsOwn(t *testing.T) {
	old, next := miniredis.RunT(t), miniredis.RunT(t)
	old.SetTime(time.Now())
	s := newFakeSentinel(t, old.Addr(), 1)
	store := open(t, behind(s))
	take(t, store, newHold(t, minute), tierlock.Granted)

	next.SetTime(time.Now().Add(-3 * time.Hour))
	s.told.Store(&told{next.Addr(), 2})
	old.Close() // so that it looks
	var hold tierlock.Hold
	eventually(t, "the next master grants", func() bool {
		hold = newHold(t, minute)
		answer, err := try(t, store, hold)
		return err == nil && answer.Status == tierlock.Granted
	})
	if !next.Exists(hold.Key.String()) {
		t.Fatal("it is elsewhere")
	}
	ctx, _ := within(t, time.Second)
	answer, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute), NotAfter: time.Now().Add(-time.Minute)})
	if err != nil || answer.Status != tierlock.Late {
		t.Errorf("past not-after by the new clock: %v, %v", answer.Status, err)
	}
	if bound, ok := store.ClockError(); !ok || bound < 2*time.Hour {
		t.Errorf("clock error %v, %t, want about 3h", bound, ok)
	}
}
