// Package order is an order service that must never sell the same stock twice. Its chain
// is strong; a holder enters the stock with its fencing token before its first read; and
// every writer compares and bumps the row's version, so that a slow or dead store sends
// sales down the optimistic path without one of them being lost.
package order

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
)

// Chain is the name of the service's chain.
const Chain = "order"

// Policy of the chain.
func Policy() gateway.Policy {
	p := gateway.Strong("one sale of a sku at a time", gateway.Fence)
	p.Ladder.VersionGuard = true // every writer of a stock row compares and bumps its version
	return p
}

// The answers that a shop shows its customers.
var (
	ErrBusy    = errors.New("order: somebody else is buying this now") // try again
	ErrSoldOut = errors.New("order: sold out")
	ErrPlaced  = errors.New("order: was placed before") // the same order id: nothing was sold again
)

// Order asks for one piece.
type Order struct {
	ID  string // the customer's order: the same id is never sold twice
	SKU string
}

// Config of a [Service]. Gateway, DB and Dialect are required.
type Config struct {
	Gateway *gateway.Gateway // with a chain named "order"
	DB      *sql.DB          // with the tables of [Schema]
	Dialect guard.Dialect

	// Enter lets a holder into the stock. Default [guard.Enter].
	Enter func(ctx context.Context, tx guard.Tx, d guard.Dialect, key tierlock.Key, token tierlock.Token) error
	// Watch is called with every lock once it is in hand, and what it returns before the
	// lock is given back: for tracing. Default none.
	Watch func(ctx context.Context, g tierlock.Grant) (leave func())
}

// Service places orders. It is safe for concurrent use.
type Service struct {
	cfg    Config
	orders *gateway.Chain
}

// New returns a Service, or an error when the gateway has no chain "order".
func New(cfg Config) (*Service, error) {
	if cfg.Enter == nil {
		cfg.Enter = guard.Enter
	}
	if cfg.Watch == nil {
		cfg.Watch = func(context.Context, tierlock.Grant) func() { return func() {} }
	}
	orders, err := cfg.Gateway.Chain(Chain)
	return &Service{cfg, orders}, err
}

// Place sells one piece: under the lock, or, where the store does not answer in time,
// optimistically. The error is one of the three above, an error of the gateway
// ([tierlock.ErrTimeout], [tierlock.ErrSystem]) or of the database.
func (s *Service) Place(ctx context.Context, o Order) error {
	err := s.orders.Do(ctx, o.SKU,
		func(ctx context.Context, g tierlock.Grant) error {
			defer s.cfg.Watch(ctx, g)()
			return s.underLock(ctx, g, o)
		},
		gateway.Optimistically(func(ctx context.Context) error { return s.optimistically(ctx, o) }),
		gateway.About(audit.Business{Type: "stock", ID: o.SKU, Op: "sell", Delta: -1}))
	if errors.Is(err, tierlock.ErrHeld) || errors.Is(err, guard.ErrStale) || guard.Retryable(err) {
		return ErrBusy
	}
	return err
}

func (s *Service) underLock(ctx context.Context, g tierlock.Grant, o Order) error {
	version, err := s.Look(ctx, g, o.SKU)
	if err != nil {
		return err
	}
	return s.Sell(ctx, g, version, o)
}

// Look enters the stock with the holder's token and reads the version of its row. From
// then on no holder of an older token gets in.
func (s *Service) Look(ctx context.Context, g tierlock.Grant, sku string) (version int64, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.cfg.Enter(ctx, tx, s.cfg.Dialect, g.Key, g.Token); err != nil {
			return err
		}
		version, err = stock.Read(ctx, tx, s.cfg.Dialect, sku)
		return err
	})
	return version, err
}

// Sell writes the sale. It enters again, since the lock may have passed on after Look, and
// compares the version, since an optimistic sale carries no token: either one going wrong
// is [guard.ErrStale], and nothing is written.
func (s *Service) Sell(ctx context.Context, g tierlock.Grant, version int64, o Order) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.cfg.Enter(ctx, tx, s.cfg.Dialect, g.Key, g.Token); err != nil {
			return err
		}
		return s.sell(ctx, tx, version, o)
	})
}

// tries bounds how often an optimistic sale reads the row again after losing a race for it.
const tries = 3

// optimistically holds nothing: it reads the version, and writes only if nobody wrote in
// between.
func (s *Service) optimistically(ctx context.Context, o Order) (err error) {
	for range tries {
		var version int64
		if version, err = stock.Read(ctx, s.cfg.DB, s.cfg.Dialect, o.SKU); err != nil {
			return err
		}
		err = s.transact(ctx, func(tx *sql.Tx) error { return s.sell(ctx, tx, version, o) })
		if !errors.Is(err, guard.ErrStale) {
			return err
		}
	}
	return err
}

// sell is the one place that writes a sale, whoever asks. The bump comes first: it locks
// the row, so what follows is guarded by the same comparison.
func (s *Service) sell(ctx context.Context, tx *sql.Tx, version int64, o Order) error {
	if err := stock.Bump(ctx, tx, s.cfg.Dialect, o.SKU, version); err != nil {
		return err
	}
	// Its insert finds out whether the order is a repeat; a rollback then undoes the bump.
	words := wordsOf(s.cfg.Dialect)
	if err := one(ErrPlaced)(tx.ExecContext(ctx, words.place, o.ID, o.SKU)); err != nil {
		return err
	}
	return one(ErrSoldOut)(tx.ExecContext(ctx, words.take, o.SKU))
}

// one is none unless a statement changed a row.
func one(none error) func(sql.Result, error) error {
	return func(res sql.Result, err error) error {
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return none
	}
}

// transact begins again where the database asks for it: what happens in fn is all undone
// by a rollback.
func (s *Service) transact(ctx context.Context, fn func(*sql.Tx) error) error {
	return guard.Transact(ctx, s.cfg.DB, nil, fn)
}
