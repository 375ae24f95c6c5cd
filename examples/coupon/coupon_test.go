package coupon_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the shop's database

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type shop struct {
	*coupon.Service
	kit *gatewaytest.Kit
	db  *sql.DB
	t   *testing.T
}

// inShop runs test in a bubble. A claim takes 10 ms between its check and its write.
func inShop(t *testing.T, test func(t *testing.T, s *shop)) {
	path := filepath.Join(t.TempDir(), "shop.db")
	synctest.Test(t, func(t *testing.T) {
		s := &shop{t: t, kit: gatewaytest.New(t, map[string]gateway.Policy{coupon.Chain: coupon.Policy()})}
		defer s.kit.End()
		var err error
		if s.db, err = sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)"); err != nil {
			t.Fatal(err)
		}
		defer s.db.Close()
		s.db.SetMaxOpenConns(1)
		for _, statement := range coupon.Schema() {
			if _, err := s.db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		s.Service, err = coupon.New(coupon.Config{Gateway: s.kit.Gateway, DB: s.db, Between: func(context.Context) { time.Sleep(10 * time.Millisecond) }})
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

func (s *shop) claim(id string) error {
	return s.Claim(s.t.Context(), coupon.Claim{ID: id, User: "u1", Coupon: "c7"})
}

// atOnce claims the same coupon n times at once and counts the claims that were written.
func (s *shop) atOnce(n int) (written int) {
	s.t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _ = s.claim(string(rune('a' + i))) })
	}
	wg.Wait()
	if err := s.db.QueryRowContext(s.t.Context(), `SELECT COUNT(*) FROM claims`).Scan(&written); err != nil {
		s.t.Fatal(err)
	}
	return written
}

func TestOneClaimPerUserOnEveryTierThatExcludes(t *testing.T) {
	for _, mode := range []tierlock.Mode{tierlock.ModeAuto, tierlock.ModeShared, tierlock.ModeLocal, tierlock.ModeOptimistic} {
		t.Run(mode.String(), func(t *testing.T) {
			inShop(t, func(t *testing.T, s *shop) {
				s.kit.Force(coupon.Chain, mode)
				if n := s.atOnce(5); n != 1 {
					t.Fatalf("%d claims written, want 1", n)
				}
				if err := s.claim("again"); !errors.Is(err, coupon.ErrClaimed) {
					t.Fatalf("second claim: %v", err)
				}
			})
		})
	}
}

// Bypass excludes nobody, and the schema must not hide that: what it lets through is what
// reconciliation has to find and take back.
func TestBypassReallyOverClaims(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.kit.Force(coupon.Chain, tierlock.ModeBypass)
		if n := s.atOnce(5); n != 5 {
			t.Fatalf("%d claims written, want 5", n)
		}
		events := s.kit.Audit.Events()
		if len(events) != 10 {
			t.Fatalf("%d events, want 10", len(events))
		}
		for _, ev := range events {
			if ev.Tier != tierlock.Bypass || ev.Business != (audit.Business{Type: "coupon", ID: "u1-c7", Op: "claim", Delta: 1}) {
				t.Fatalf("event %+v", ev)
			}
		}
	})
}

func TestBypassNeedsItsRecord(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.kit.Force(coupon.Chain, tierlock.ModeBypass)
		s.kit.Audit.Fail(errors.New("disk full"))
		if err := s.claim("a"); !errors.Is(err, tierlock.ErrSystem) {
			t.Fatalf("bypass without a record: %v", err)
		}
	})
}

// An optimistic claim is never an over-claim, in whatever order it meets a locked one.
func TestOptimisticAndLockedClaimsExcludeEachOther(t *testing.T) {
	for name, modes := range map[string][2]tierlock.Mode{
		"optimistic first": {tierlock.ModeOptimistic, tierlock.ModeBypass},
		"locked first":     {tierlock.ModeBypass, tierlock.ModeOptimistic},
	} {
		t.Run(name, func(t *testing.T) {
			inShop(t, func(t *testing.T, s *shop) {
				for i, mode := range modes {
					s.kit.Force(coupon.Chain, mode)
					if err := s.claim(string(rune('a' + i))); (err == nil) != (i == 0) {
						t.Fatalf("claim %d: %v", i+1, err)
					}
				}
			})
		})
	}
}

// The narrow one: a locked claim has checked and found nothing, then an optimistic one is
// written, then the locked one writes.
func TestAnOptimisticClaimBetweenCheckAndWriteWins(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		var slow error
		var wg sync.WaitGroup
		wg.Go(func() { slow = s.claim("locked") })
		time.Sleep(5 * time.Millisecond) // it has checked
		s.kit.Force(coupon.Chain, tierlock.ModeOptimistic)
		if err := s.claim("optimistic"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if !errors.Is(slow, coupon.ErrClaimed) {
			t.Fatalf("the locked claim: %v, want claimed", slow)
		}
	})
}

func TestADeadStoreIsServedLocally(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.kit.Store.Down(true)
		if err := s.claim("a"); err != nil {
			t.Fatal(err)
		}
		events := s.kit.Audit.Events()
		if len(events) != 2 || events[0].Tier != tierlock.Local {
			t.Fatalf("events %+v", events)
		}
	})
}
