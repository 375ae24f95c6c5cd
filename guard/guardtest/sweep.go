package guardtest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

// age puts the last touch of the keys that match back by seconds.
func (s *shop) age(like string, seconds int) {
	s.t.Helper()
	past := map[guard.Dialect]string{
		guard.SQLite:   `strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', touched_at, '-%d seconds')`,
		guard.Postgres: `touched_at - %d * interval '1 second'`,
		guard.MySQL:    `touched_at - INTERVAL %d SECOND`,
	}[s.d]
	s.do(fmt.Sprintf(`UPDATE tierlock_fence SET touched_at = `+past+` WHERE lock_key LIKE '%s'`, seconds, like))
}

const week = 7 * 24 * time.Hour

func sweepRemovesWhatIsIdle(s *shop) {
	ctx := s.t.Context()
	const idle = 450 // more than two pages
	tx := s.begin(nil)
	for i := range idle + 50 {
		word := "idle"
		if i >= idle {
			word = "busy"
		}
		g := tierlock.Grant{Key: parseKey(s.t, fmt.Sprintf("biz:%s:lock:%d", word, i)), Token: 5}
		if err := s.fence.Enter(ctx, tx, g); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		s.t.Fatal(err)
	}
	s.age("biz:busy:%", int(week/time.Second)-60)
	s.age("biz:idle:%", int(week/time.Second)+60)
	if n, err := s.fence.Sweep(ctx, s.DB, week); n != idle || err != nil {
		s.t.Fatalf("%d removed, %v; want %d", n, err, idle)
	}
	if n := s.one(`SELECT count(*) FROM tierlock_fence WHERE lock_key LIKE 'biz:busy:%'`); n != 50 {
		s.t.Fatalf("%d busy marks are left of 50", n)
	}
	if n, err := s.fence.Sweep(ctx, s.DB, week); n != 0 || err != nil {
		s.t.Fatalf("a second sweep removed %d, %v", n, err)
	}
	// A mark that stands refuses; the key of one that was swept takes any token again.
	busy := tierlock.Grant{Key: parseKey(s.t, "biz:busy:lock:450"), Token: 4}
	if err := s.enter(s.fence, busy); !errors.Is(err, guard.ErrStale) {
		s.t.Fatalf("token 4 on a mark of 5: %v", err)
	}
	for _, d := range []time.Duration{0, -1, guard.MinIdle - 1} {
		if n, err := s.fence.Sweep(ctx, s.DB, d); !errors.Is(err, tierlock.ErrInvalid) || n != 0 {
			s.t.Errorf("sweep of what is idle for %v: %d, %v", d, n, err)
		}
	}
	if _, err := s.fence.Sweep(ctx, nil, week); !errors.Is(err, tierlock.ErrInvalid) {
		s.t.Errorf("sweep of nothing: %v", err)
	}
}

// sweepLeavesWhatIsEntered has a sweep meet a row that looks idle and is being entered.
func sweepLeavesWhatIsEntered(s *shop) {
	ctx := s.t.Context()
	if err := s.enter(s.fence, s.grant(5)); err != nil {
		s.t.Fatal(err)
	}
	s.age("%", int(2*week/time.Second))
	tx := s.begin(nil)
	if err := s.byFence(ctx, tx, 6); err != nil {
		s.t.Fatal(err)
	}
	var wg sync.WaitGroup
	var removed int64
	var swept error
	wg.Go(func() { removed, swept = s.fence.Sweep(ctx, s.DB, week) })
	time.Sleep(soon) //nolint:forbidigo // see soon
	if err := tx.Commit(); err != nil {
		s.t.Fatal(err)
	}
	wg.Wait()
	if removed != 0 || swept != nil {
		s.t.Fatalf("%d removed, %v", removed, swept)
	}
	s.wantStale(s.enter(s.fence, s.grant(5)), 5, 6)
}
