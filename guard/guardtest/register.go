package guardtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/guard"
)

// tally counts what was accepted; anything but stale, and a hot key's last try, ends the test.
type tally struct {
	s        *shop
	mu       sync.Mutex
	accepted int64
}

func (c *tally) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.accepted++
	case !errors.Is(err, guard.ErrStale) && !errors.Is(err, guard.ErrRetry):
		c.s.t.Error(err)
	}
}

// paused has A read, then B read, then A write, then B write, A with the lower token, and
// tells how many increments were accepted.
func (s *shop) paused(first, second entry) (accepted int64) {
	s.t.Helper()
	if err := s.enter(s.fence, s.grant(1)); err != nil {
		s.t.Fatal(err)
	}
	count := tally{s: s}
	aRead, bRead, aWrote := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(aWrote)
		count.add(s.incrementInTwo(first, second, 5, func() { close(aRead); <-bRead }))
	})
	<-aRead
	count.add(s.incrementInTwo(first, second, 6, func() { close(bRead); <-aWrote }))
	wg.Wait()
	return count.accepted
}

func pausedHolderLosesNothing(s *shop) {
	accepted := s.paused(s.byFence, s.byFence)
	if n := s.one(`SELECT n FROM register`); n != accepted || accepted != 1 {
		s.t.Fatalf("%d increments accepted, register at %d; want 1 and 1", accepted, n)
	}
}

// The reason for Enter: a check of tokens at the write alone accepts both, and one is lost.
func tokensAtTheWriteAloneLose(s *shop) {
	accepted := s.paused(s.unguarded, s.byFence)
	if n := s.one(`SELECT n FROM register`); accepted != 2 || n != 1 {
		s.t.Fatalf("%d increments accepted, register at %d; want 2 and 1, which is the loss", accepted, n)
	}
}

// What keeps the register in the tests above and below is the guard and nothing else.
func withoutTheGuardUpdatesAreLost(s *shop) {
	accepted := s.paused(s.unguarded, s.unguarded)
	if n := s.one(`SELECT n FROM register`); accepted != 2 || n != 1 {
		s.t.Fatalf("%d increments accepted, register at %d; want 2 and 1, which is the loss", accepted, n)
	}
}

// soon is time for another transaction to arrive at the row and wait there. No outcome
// rests on it: one that arrives later finds the same marks.
const soon = 30 * time.Millisecond

// olderHolderFirst has token 5 inside its transaction, between read and write, when token 6
// arrives: that one waits, reads what was written, and both count.
func olderHolderFirst(s *shop) {
	var wg sync.WaitGroup
	inside := make(chan struct{})
	var once sync.Once
	var late error
	wg.Go(func() {
		<-inside
		late = s.increment(s.byFence, 6, func() {})
	})
	early := s.increment(s.byFence, 5, func() {
		once.Do(func() { close(inside) })
		time.Sleep(soon) //nolint:forbidigo // see soon
	})
	wg.Wait()
	if early != nil || late != nil {
		s.t.Fatalf("token 5: %v, token 6: %v; want both let in", early, late)
	}
	if n := s.one(`SELECT n FROM register`); n != 2 {
		s.t.Fatalf("register at %d, want 2", n)
	}
}

// newerHolderFirst has token 6 inside when token 5 arrives: that one waits and is refused.
func newerHolderFirst(s *shop) {
	var wg sync.WaitGroup
	inside := make(chan struct{})
	var once sync.Once
	var stale error
	wg.Go(func() {
		<-inside
		stale = s.increment(s.byFence, 5, func() {})
	})
	err := s.increment(s.byFence, 6, func() {
		once.Do(func() { close(inside) })
		time.Sleep(soon) //nolint:forbidigo // see soon
	})
	wg.Wait()
	if err != nil {
		s.t.Fatal(err)
	}
	s.wantStale(stale, 5, 6)
	if n := s.one(`SELECT n FROM register`); n != 1 {
		s.t.Fatalf("register at %d, want 1", n)
	}
}

// Many holders at once, in any order of their tokens, half of them paused between two
// transactions: whatever is accepted is in the register.
func manyHoldersKeepTheRegister(s *shop) { s.keepRegister(s.byFence) }

func rowTokenKeepsTheRegister(s *shop) { s.keepRegister(s.byRow) }

func (s *shop) keepRegister(enter entry) {
	count := tally{s: s}
	var wg sync.WaitGroup
	for i, token := range rand.Perm(16) {
		wg.Go(func() {
			think := func() { time.Sleep(rand.N(3 * time.Millisecond)) } //nolint:forbidigo // only mixes them
			if i%2 == 0 {
				count.add(s.increment(enter, tierlock.Token(100+token), think))
			} else {
				count.add(s.incrementInTwo(enter, enter, tierlock.Token(100+token), think))
			}
		})
	}
	wg.Wait()
	if n := s.one(`SELECT n FROM register`); n != count.accepted || count.accepted == 0 {
		s.t.Fatalf("%d increments accepted, register at %d", count.accepted, n)
	}
}

// create looks whether the thing is there and makes it if not, in two transactions.
func (s *shop) create(enter entry, token tierlock.Token, think func()) error {
	ctx := s.t.Context()
	var n int
	err := guard.Transact(ctx, s.DB, s.opts, func(tx *sql.Tx) error {
		if err := enter(ctx, tx, token); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM made`).Scan(&n)
	})
	if err != nil || n > 0 {
		return err
	}
	think()
	return guard.Transact(ctx, s.DB, s.opts, func(tx *sql.Tx) error {
		if err := enter(ctx, tx, token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO made VALUES ('by %d')`, token))
		return err
	})
}

// makers has all makers look before any of them makes, as far as they are let in.
func (s *shop) makers(enter entry) int64 {
	s.t.Helper()
	const makers = 8
	count := tally{s: s}
	var looked, all sync.WaitGroup
	looked.Add(makers)
	for _, token := range rand.Perm(makers) {
		all.Go(func() {
			var once sync.Once
			done := func() { once.Do(looked.Done) }
			count.add(s.create(enter, tierlock.Token(1+token), func() { done(); looked.Wait() }))
			done() // refused, or it was there
		})
	}
	all.Wait()
	return s.one(`SELECT count(*) FROM made`)
}

func aThingIsMadeOnce(s *shop) {
	if n := s.makers(s.byFence); n != 1 {
		s.t.Fatalf("made %d times, want once", n)
	}
}

func withoutTheGuardAThingIsMadeTwice(s *shop) {
	if n := s.makers(s.unguarded); n < 2 {
		s.t.Fatalf("made %d times: the test above would pass without a guard", n)
	}
}

// lateEntryReadsNothingOld has a transaction read before it enters, and another holder come
// and go in between. Where the database would go on reading from the old snapshot, Enter
// must say so; where it reads anew, the read after Enter is the true one. On SQLite, whose
// transactions here begin by writing, nobody can come in between.
func lateEntryReadsNothingOld(s *shop) {
	if s.d == guard.SQLite {
		return
	}
	ctx := s.t.Context()
	tx := s.begin(s.opts)
	defer tx.Rollback() //nolint:errcheck // the test's end
	if s.opts.Isolation == sql.LevelSerializable && s.d == guard.MySQL {
		return // a read there locks the row, so nobody comes in between either
	}
	if _, err := read(ctx, tx); err != nil {
		s.t.Fatal(err)
	}
	for range 2 { // the second time no mark is moved
		if err := s.increment(s.byFence, 5, func() {}); err != nil {
			s.t.Fatal(err)
		}
	}
	err := s.byFence(ctx, tx, 6)
	if errors.Is(err, guard.ErrRetry) {
		if s.opts.Isolation == sql.LevelReadCommitted {
			s.t.Fatalf("begun again for nothing: %v", err)
		}
		return
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if n, err := read(ctx, tx); err != nil || n != 2 {
		s.t.Fatalf("entered, and read %d, %v; want 2", n, err)
	}
}

// crossedKeysAreBegunAgain has two transactions each enter the key that the other has
// entered. One of them must be told to begin again, and the other gets through.
func crossedKeysAreBegunAgain(s *shop) {
	if s.d == guard.SQLite {
		return // has one writer at a time
	}
	ctx := s.t.Context()
	keys := [2]tierlock.Key{s.key, parseKey(s.t, "biz:order:lock:2")}
	var in sync.WaitGroup
	in.Add(2)
	var errs [2]error
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			tx := s.begin(nil)
			defer tx.Rollback() //nolint:errcheck // the victim's
			err := s.fence.Enter(ctx, tx, tierlock.Grant{Key: keys[i], Token: 5})
			in.Done()
			in.Wait()
			if err == nil {
				err = s.fence.Enter(ctx, tx, tierlock.Grant{Key: keys[1-i], Token: 5})
			}
			if errs[i] = err; err == nil {
				errs[i] = tx.Commit()
			}
		})
	}
	wg.Wait()
	victim, other := errs[0], errs[1]
	if victim == nil {
		victim, other = other, victim
	}
	if !errors.Is(victim, guard.ErrRetry) || errors.Is(victim, guard.ErrStale) || other != nil {
		s.t.Fatalf("one %v, the other %v; want one to begin again", victim, other)
	}
}

// longWaitIsBegunAgain has a holder stay in for longer than the database lets another wait.
func longWaitIsBegunAgain(s *shop) {
	wait := map[guard.Dialect]string{guard.Postgres: `SET lock_timeout = '50ms'`, guard.MySQL: `SET innodb_lock_wait_timeout = 1`}[s.d]
	if wait == "" {
		return // SQLite waits in BEGIN, by its busy timeout: see the test of guard
	}
	ctx := s.t.Context()
	tx := s.begin(nil)
	defer tx.Rollback() //nolint:errcheck // the test's end
	if err := s.byFence(ctx, tx, 5); err != nil {
		s.t.Fatal(err)
	}
	err := s.within(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, wait); err != nil {
			return err
		}
		return s.byFence(ctx, tx, 6)
	})
	if !errors.Is(err, guard.ErrRetry) {
		s.t.Fatalf("error %v, want begin again", err)
	}
}

// transactGivesUpWithItsContext: a lock that has ended is no reason to try on.
func transactGivesUpWithItsContext(s *shop) {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	n := 0
	err := guard.Transact(ctx, s.DB, nil, func(*sql.Tx) error {
		n++
		if n == 2 {
			cancel(tierlock.ErrLost)
		}
		return guard.ErrRetry
	})
	if n != 2 || !errors.Is(err, tierlock.ErrLost) || !errors.Is(err, guard.ErrRetry) {
		s.t.Fatalf("begun %d times, %v", n, err)
	}
	n = 0
	err = guard.Transact(s.t.Context(), s.DB, nil, func(*sql.Tx) error { n++; return guard.ErrRetry })
	if n != 10 || !errors.Is(err, guard.ErrRetry) {
		s.t.Fatalf("begun %d times, %v; want 10", n, err)
	}
}
