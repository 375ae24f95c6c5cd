// Package coupon is a coupon service that would rather give one coupon too many than none
// at all: its chain is weak, and reconciliation takes back what was too much.
package coupon

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
)

// Chain is the name of the service's chain.
const Chain = "coupon"

// Policy of the chain.
func Policy() gateway.Policy {
	p := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	p.Local.Permits = 1 // exclusive in the process: a second holder would be an over-claim at once
	return p
}

// The answers that a shop shows its customers.
var (
	ErrBusy    = errors.New("coupon: your claim is being served")
	ErrClaimed = errors.New("coupon: was claimed before")
)

// Claim asks for one coupon.
type Claim struct {
	ID     string // of the request
	User   string
	Coupon string
}

// Config of a [Service]. Gateway and DB are required.
type Config struct {
	Gateway *gateway.Gateway // with a chain named "coupon"
	DB      *sql.DB          // with the tables of [Schema]; SQLite or PostgreSQL
	Kind    string           // the business type in events, which picks the repair. Default "coupon"

	// Between is called between the check and the claim, for what a shop does there:
	// asking a risk service, say. Default nothing.
	Between func(ctx context.Context)
	// Watch is called with every lock once it is in hand, and what it returns before the
	// lock is given back: for tracing. Default none.
	Watch func(ctx context.Context, g tierlock.Grant) (leave func())
}

// Service gives every user every coupon once. It is safe for concurrent use.
type Service struct {
	cfg     Config
	coupons *gateway.Chain
}

// New returns a Service, or an error when the gateway has no chain "coupon".
func New(cfg Config) (*Service, error) {
	if cfg.Kind == "" {
		cfg.Kind = "coupon"
	}
	if cfg.Between == nil {
		cfg.Between = func(context.Context) {}
	}
	if cfg.Watch == nil {
		cfg.Watch = func(context.Context, tierlock.Grant) func() { return func() {} }
	}
	coupons, err := cfg.Gateway.Chain(Chain)
	return &Service{cfg, coupons}, err
}

// Claim gives the user the coupon. Under a lock of any tier it checks and then claims;
// where the store does not answer in time, the unique index decides. The error is one of
// the two above, an error of the gateway ([tierlock.ErrTimeout], [tierlock.ErrSystem]) or
// of the database.
func (s *Service) Claim(ctx context.Context, c Claim) error {
	id := c.User + "-" + c.Coupon
	err := s.coupons.Do(ctx, id,
		func(ctx context.Context, g tierlock.Grant) error {
			defer s.cfg.Watch(ctx, g)()
			return s.underLock(ctx, g, c)
		},
		gateway.Optimistically(func(ctx context.Context) error { return s.optimistically(ctx, c) }),
		gateway.About(audit.Business{Type: s.cfg.Kind, ID: id, Op: "claim", Delta: 1}))
	if errors.Is(err, tierlock.ErrHeld) {
		return ErrBusy
	}
	return err
}

// underLock checks, then claims. What keeps two holders from both finding nothing is the
// lock alone: under bypass both claim, and reconciliation withdraws one.
func (s *Service) underLock(ctx context.Context, g tierlock.Grant, c Claim) error {
	var had int
	err := s.cfg.DB.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM claims WHERE user_id = $1 AND coupon = $2 AND withdrawn = 0`, c.User, c.Coupon).Scan(&had)
	switch {
	case err != nil:
		return fmt.Errorf("coupon: check: %w", err)
	case had > 0:
		return ErrClaimed
	}
	s.cfg.Between(ctx)
	return s.claim(ctx, takeLocked, c, g.RequestID.Fingerprint())
}

// optimistically holds nothing and so must not check first: the unique index does both.
func (s *Service) optimistically(ctx context.Context, c Claim) error {
	return s.claim(ctx, takeUnlocked, c, "")
}

// claim takes the user's slot and writes the claim, in one transaction.
func (s *Service) claim(ctx context.Context, takeSlot string, c Claim, holder string) error {
	tx, err := s.cfg.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("coupon: begin: %w", err)
	}
	if err := write(ctx, tx, takeSlot, s.cfg.Kind, c, holder); err != nil {
		if e := tx.Rollback(); !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, e)
		}
		return err
	}
	return tx.Commit()
}

func write(ctx context.Context, tx *sql.Tx, takeSlot, kind string, c Claim, holder string) error {
	res, err := tx.ExecContext(ctx, takeSlot, c.User, c.Coupon)
	if err != nil {
		return fmt.Errorf("coupon: take slot: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrClaimed, err)
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO claims (id, user_id, coupon, kind, holder) VALUES ($1, $2, $3, $4, $5)`, c.ID, c.User, c.Coupon, kind, holder)
	if err != nil {
		return fmt.Errorf("coupon: claim: %w", err)
	}
	return nil
}
