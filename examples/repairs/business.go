package main

import (
	"context"
	"database/sql"
	"embed"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/switchcfg"
)

//go:embed *.yaml
var files embed.FS

// business is one way to break a record, and what it must look like once it is mended.
type business struct {
	name   string // business type, and its file
	record audit.Business
	schema []string // the same on PostgreSQL and SQLite
	// write is what a holder does. It calls met between its read and its writes: there the
	// two wait for each other, so that both have read before either has written.
	write func(ctx context.Context, db *sql.DB, holder string, met func()) error
	// broken is a query: by how much the record is wrong. It is not the hook's check.
	broken string
	// effects is a query: how many repairs the business can see.
	effects string
	// stands is a query with one row of one text, for people.
	stands string
}

// hookFile is a file beside this one.
type hookFile struct {
	Hooks map[string]struct {
		Action    string   `yaml:"action"`
		Check     string   `yaml:"check"`
		Repair    []string `yaml:"repair"`
		Apply     string   `yaml:"apply"`
		Over      int64    `yaml:"approve_over"`
		Approvers int      `yaml:"approvers"`
	} `yaml:"hooks"`
}

// hook is the one of b's file, as tierlock reconcile makes it of a tierlock.yaml.
func (b *business) hook(db *sql.DB, d reconcile.Dialect) (reconcile.Hook, error) {
	text, err := files.ReadFile(b.name + ".yaml")
	if err != nil {
		return reconcile.Hook{}, err
	}
	var f hookFile
	if err := switchcfg.Decode(text, &f); err != nil {
		return reconcile.Hook{}, err
	}
	h := f.Hooks[b.name]
	hook, err := reconcile.NewSQLHook(reconcile.SQLHookConfig{DB: db, Dialect: d, Action: h.Action, Check: h.Check, Repair: h.Repair})
	hook.Consent = reconcile.Consent{Apply: reconcile.Apply(h.Apply), Over: h.Over, Approvers: h.Approvers}
	return hook, err
}

// businesses are the four.
func businesses() []business { return []business{stock(), coupon(), payment(), balance()} }

// stock has one piece left, and two buyers who both read that.
func stock() business {
	return business{
		name: "stock", record: audit.Business{Type: "stock", ID: "apple", Op: "sell", Delta: -1},
		schema: []string{
			`CREATE TABLE stock (sku VARCHAR(64) PRIMARY KEY, pieces BIGINT NOT NULL)`,
			`CREATE TABLE orders (sku VARCHAR(64) NOT NULL, holder VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL)`,
			`INSERT INTO stock (sku, pieces) VALUES ('apple', 1)`,
		},
		write: func(ctx context.Context, db *sql.DB, holder string, met func()) error {
			var pieces int
			err := db.QueryRowContext(ctx, `SELECT pieces FROM stock WHERE sku = 'apple'`).Scan(&pieces)
			met()
			if err != nil || pieces < 1 {
				return err // sold out
			}
			return exec(ctx, db,
				`INSERT INTO orders (sku, holder, state) VALUES ('apple', $1, 'placed')`, holder,
				`UPDATE stock SET pieces = pieces - 1 WHERE sku = 'apple' AND $1 <> ''`, holder)
		},
		broken:  `SELECT -pieces FROM stock WHERE pieces < 0`,
		effects: `SELECT count(*) FROM orders WHERE state = 'cancelled'`,
		stands: `SELECT CAST((SELECT pieces FROM stock) AS VARCHAR(20)) || ' pieces left, ' ||
CAST((SELECT count(*) FROM orders WHERE state = 'placed') AS VARCHAR(20)) || ' orders placed'`,
	}
}

// coupon may be claimed once, and is by two who both see that nobody has.
func coupon() business {
	return business{
		name: "coupon", record: audit.Business{Type: "coupon", ID: "u42-c7", Op: "claim", Delta: 1},
		schema: []string{`CREATE TABLE claims (coupon VARCHAR(64) NOT NULL, holder VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL)`},
		write: func(ctx context.Context, db *sql.DB, holder string, met func()) error {
			var claimed int
			err := db.QueryRowContext(ctx, `SELECT count(*) FROM claims WHERE coupon = 'u42-c7' AND state = 'claimed'`).Scan(&claimed)
			met()
			if err != nil || claimed > 0 {
				return err // somebody has it
			}
			return exec(ctx, db, `INSERT INTO claims (coupon, holder, state) VALUES ('u42-c7', $1, 'claimed')`, holder)
		},
		broken:  `SELECT count(*) - 1 FROM claims WHERE state = 'claimed'`,
		effects: `SELECT count(*) FROM claims WHERE state = 'given_back'`,
		stands:  `SELECT CAST((SELECT count(*) FROM claims WHERE state = 'claimed') AS VARCHAR(20)) || ' claims of one coupon'`,
	}
}

// payment is of a bill of 42.00, which two workers of the queue capture at once.
func payment() business {
	return business{
		name: "payment", record: audit.Business{Type: "payment", ID: "b-17", Op: "capture", Delta: 4200},
		schema: []string{
			`CREATE TABLE bills (id VARCHAR(64) PRIMARY KEY, cents BIGINT NOT NULL)`,
			`CREATE TABLE payments (id VARCHAR(64) PRIMARY KEY, bill VARCHAR(64) NOT NULL, holder VARCHAR(64) NOT NULL, cents BIGINT NOT NULL, state VARCHAR(16) NOT NULL)`,
			`CREATE TABLE refunds (payment VARCHAR(64) PRIMARY KEY, cents BIGINT NOT NULL)`, // one payment is paid back once, whatever happens
			`INSERT INTO bills (id, cents) VALUES ('b-17', 4200)`,
		},
		write: func(ctx context.Context, db *sql.DB, holder string, met func()) error {
			var paid int
			err := db.QueryRowContext(ctx, `SELECT count(*) FROM payments WHERE bill = 'b-17' AND state = 'captured'`).Scan(&paid)
			met()
			if err != nil || paid > 0 {
				return err // it is paid
			}
			return exec(ctx, db, `INSERT INTO payments (id, bill, holder, cents, state) VALUES ('pay-' || $1, 'b-17', $1, 4200, 'captured')`, holder)
		},
		broken:  `SELECT CAST(sum(cents) AS BIGINT) - 4200 FROM payments WHERE state = 'captured'`,
		effects: `SELECT count(*) FROM refunds`,
		stands: `SELECT CAST((SELECT count(*) FROM payments WHERE state = 'captured') AS VARCHAR(20)) || ' payments stand, ' ||
CAST((SELECT count(*) FROM refunds) AS VARCHAR(20)) || ' refunds begun'`,
	}
}

// balance takes two deposits of 10.00, each added to the balance that its writer has read.
func balance() business {
	return business{
		name: "balance", record: audit.Business{Type: "balance", ID: "acc-1", Op: "deposit", Delta: 1000},
		schema: []string{
			`CREATE TABLE accounts (id VARCHAR(64) PRIMARY KEY, balance BIGINT NOT NULL)`,
			`CREATE TABLE entries (account VARCHAR(64) NOT NULL, holder VARCHAR(64) NOT NULL, cents BIGINT NOT NULL)`,
			`INSERT INTO accounts (id, balance) VALUES ('acc-1', 0)`,
		},
		write: func(ctx context.Context, db *sql.DB, holder string, met func()) error {
			var balance int64
			err := db.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 'acc-1'`).Scan(&balance)
			met()
			if err != nil {
				return err
			}
			return exec(ctx, db,
				`INSERT INTO entries (account, holder, cents) VALUES ('acc-1', $1, 1000)`, holder,
				`UPDATE accounts SET balance = $1 WHERE id = 'acc-1'`, balance+1000)
		},
		broken: `SELECT CAST(abs(balance - (SELECT sum(cents) FROM entries)) AS BIGINT) FROM accounts`,
		// What a recount has done cannot be told from the account: the keys of repairs tell.
		effects: `SELECT count(*) FROM tierlock_repairs WHERE business_type = 'balance'`,
		stands: `SELECT 'a balance of ' || CAST((SELECT balance FROM accounts) AS VARCHAR(20)) || ', a ledger of ' ||
CAST((SELECT CAST(sum(cents) AS BIGINT) FROM entries) AS VARCHAR(20))`,
	}
}

// exec runs statements, each with its one argument.
func exec(ctx context.Context, db *sql.DB, pairs ...any) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if _, err := db.ExecContext(ctx, pairs[i].(string), pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}
