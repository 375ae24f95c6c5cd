package drills

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

const (
	skus   = 200
	pieces = 1_000_000
)

// shop sells pieces under a lock, and by version where there is none: every writer compares
// and bumps the version of the row, lock holders included.
type shop struct {
	db                       *sql.DB
	asked, sold, byVersion   atomic.Int64
	busy, refused, conflicts atomic.Int64
}

func newShop(t *testing.T) *shop {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(off)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(`CREATE TABLE sku (id INTEGER PRIMARY KEY, pieces INTEGER NOT NULL, version INTEGER NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	for id := range skus {
		if _, err := db.Exec(`INSERT INTO sku VALUES (?, ?, 0)`, id, pieces); err != nil {
			t.Fatal(err)
		}
	}
	return &shop{db: db}
}

// order sells one piece of any sku, by the lock or by version. A customer who finds it busy
// comes again, as the answer advises: what was in doubt when the way was cut keeps its key
// until it is settled.
func (s *shop) order(c *gateway.Chain) {
	s.asked.Add(1)
	sku := rand.IntN(skus)
	var versioned bool
	var err error
	for range 8 {
		if err = s.try(c, sku, &versioned); !errors.Is(err, tierlock.ErrHeld) {
			break
		}
		s.busy.Add(1)
		wait(100 * time.Millisecond)
	}
	switch {
	case err == nil && versioned:
		s.byVersion.Add(1)
		s.sold.Add(1)
	case err == nil:
		s.sold.Add(1)
	default:
		s.refused.Add(1)
	}
}

func (s *shop) try(c *gateway.Chain, sku int, versioned *bool) error {
	return c.Do(context.Background(), strconv.Itoa(sku),
		func(ctx context.Context, _ tierlock.Grant) error { return s.sell(ctx, sku) },
		gateway.Optimistically(func(ctx context.Context) error { *versioned = true; return s.sell(ctx, sku) }))
}

var errConflict = errors.New("the row changed five times")

// sell takes one piece away, once nobody has changed the row since it was read.
func (s *shop) sell(ctx context.Context, sku int) error {
	for range 5 {
		var left, version int
		if err := s.db.QueryRowContext(ctx, `SELECT pieces, version FROM sku WHERE id = ?`, sku).Scan(&left, &version); err != nil {
			return err
		}
		res, err := s.db.ExecContext(ctx, `UPDATE sku SET pieces = ?, version = version + 1 WHERE id = ? AND version = ?`, left-1, sku, version)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); n == 1 || err != nil {
			return err
		}
		s.conflicts.Add(1)
	}
	return errConflict
}

// balances checks that what is gone was sold, once.
func (s *shop) balances(t *testing.T) {
	t.Helper()
	var left, versions int64
	if err := s.db.QueryRow(`SELECT sum(pieces), sum(version) FROM sku`).Scan(&left, &versions); err != nil {
		t.Fatal(err)
	}
	if gone := skus*pieces - left; gone != s.sold.Load() || versions != gone {
		t.Errorf("%d pieces are gone, %d were sold, the versions add up to %d", gone, s.sold.Load(), versions)
	}
}

// share of the orders that committed.
func (s *shop) share() float64 { return float64(s.sold.Load()) / float64(max(1, s.asked.Load())) }

// rate is how many orders a second committed while customers came for that long, and which
// share that is of those they asked for.
func (s *shop) rate(customers int, pause, span time.Duration, c *gateway.Chain) (rate, share float64) {
	asked, sold, began := s.asked.Load(), s.sold.Load(), time.Now()
	stop := crowd(customers, func(int, int) { s.order(c); wait(pause) })
	wait(span)
	stop()
	asked, sold = s.asked.Load()-asked, s.sold.Load()-sold
	return float64(sold) / ran(began).Seconds(), float64(sold) / float64(max(1, asked))
}
