package guard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/tierlock/tierlock"
)

// Config of a [Fence]. Dialect is required.
type Config struct {
	Dialect Dialect
	// Table holds the marks; it belongs in the same database as the rows it guards. It is
	// written into SQL as it stands, so that the database folds its case as in your own
	// SQL: letters, digits and _, with a schema before a dot if you like. Default
	// "tierlock_fence".
	Table string
	// Unfenced lets holders without a token pass: those of local and bypass grants, and of
	// chains without fencing. Each passage is kept in the key's row: how many, and of the
	// last one tier, fingerprint and time. They pass beside the mark: what they and a
	// fenced holder do to each other is for reconcile to find. Default false: such a holder
	// is refused with [ErrUnfenced].
	Unfenced bool
}

// Validate reports every fault at once.
func (c *Config) Validate() error {
	errs := []error{c.Dialect.Validate()}
	if c.Table != "" && !identifier(c.Table, true) {
		errs = append(errs, tierlock.Invalid("table", c.Table, "want letters, digits and _, at most 63, with at most one dot"))
	}
	return errors.Join(errs...)
}

// Fence is a table of marks: the highest token that has entered, by lock key. It needs no
// row of the resource, so it also guards what does not exist yet. It is safe for
// concurrent use.
type Fence struct {
	d        Dialect
	table    string
	unfenced bool
	sql      queries
}

// New returns a Fence over the table that [Fence.Schema] creates. It does no I/O.
func New(cfg Config) (*Fence, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newFence(cfg), nil
}

func newFence(cfg Config) *Fence {
	if cfg.Table == "" {
		cfg.Table = defaultTable
	}
	return &Fence{d: cfg.Dialect, table: cfg.Table, unfenced: cfg.Unfenced, sql: queriesOf(cfg.Dialect, cfg.Table)}
}

// Schema is the statement that creates the table where it is missing. Run it yourself, or
// put it among your migrations. Columns may be added to the table in later versions, each
// with a default; none is ever taken away or given another meaning.
func (f *Fence) Schema() string { return strings.ReplaceAll(schemas[f.d], "{table}", f.table) }

// Enter lets the holder of g into the resource that its key names, inside the transaction
// tx that then reads or writes it. It raises the key's mark to g's token, keeps the row
// locked until tx ends, and answers a [*StaleError] when a higher token has entered
// before: then roll back. The same token may enter any number of times. A missing row is
// created, so two holders that both create a thing meet there. Only Key, Token and, for
// the record of a passage without token, Tier and RequestID of g are looked at.
//
// Call it in every transaction that touches the resource, as its first statement: the mark
// must stand before the holder's first read. Enter several keys in their order, or two
// transactions may wait for each other. A *sql.DB is refused, since check and access
// would not be one step.
//
// [ErrRetry] says that the database put this transaction back behind another: on InnoDB a
// deadlock, a lock wait that was too long, or a read before Enter that is out of date by
// now; on PostgreSQL above READ COMMITTED any race for the key; on SQLite a lock that was
// not had within the busy timeout. Later statements and the commit may meet the same:
// [Transact] begins again for all of them.
func (f *Fence) Enter(ctx context.Context, tx Tx, g tierlock.Grant) error {
	if err := checkTx(tx); err != nil {
		return err
	}
	switch {
	case g.Key.IsZero():
		return tierlock.Invalid("key", "", "want the key of the lock that is held")
	case g.Token == 0 && !f.unfenced:
		return ErrUnfenced
	}
	err := f.enter(ctx, tx, &g)
	if err == nil || errors.Is(err, ErrStale) {
		return err
	}
	return failed("enter", err)
}

func (f *Fence) enter(ctx context.Context, tx Tx, g *tierlock.Grant) error {
	if f.d == MySQL {
		return f.enterInnoDB(ctx, tx, g)
	}
	key, token := g.Key.String(), SQL(g.Token)
	if token == 0 {
		tier, by := passer(g)
		_, err := tx.ExecContext(ctx, f.sql.pass, key, tier, by)
		return err
	}
	n, err := affected(tx.ExecContext(ctx, f.sql.enter, key, token))
	if err != nil || n > 0 {
		return err
	}
	var mark int64 // never falls while the row is there, and the row is locked
	if err := tx.QueryRowContext(ctx, f.sql.mark, key).Scan(&mark); err != nil {
		return err
	}
	return &StaleError{g.Key, g.Token, tierlock.Token(mark)}
}

func (f *Fence) enterInnoDB(ctx context.Context, tx Tx, g *tierlock.Grant) error {
	key, token := g.Key.String(), SQL(g.Token)
	if _, err := tx.ExecContext(ctx, f.sql.lock, key); err != nil {
		return err
	}
	var mark, entries int64
	var seen sql.NullInt64
	if err := tx.QueryRowContext(ctx, f.sql.mark, key, key).Scan(&mark, &entries, &seen); err != nil {
		return err
	}
	var err error
	switch {
	case token != 0 && mark > token:
		return &StaleError{g.Key, g.Token, tierlock.Token(mark)}
	case !seen.Valid || seen.Int64 != entries:
		return errOldSnapshot
	case token == 0:
		tier, by := passer(g)
		_, err = tx.ExecContext(ctx, f.sql.pass, tier, by, key)
	default:
		_, err = tx.ExecContext(ctx, f.sql.enter, token, key)
	}
	return err
}

// errOldSnapshot would be a lost update one statement later.
var errOldSnapshot = fmt.Errorf("%w: it had read before it entered, and somebody has entered since; enter first", ErrRetry)

// passer is who passes without a token: tier and fingerprint, as events have them, empty
// where g does not say.
func passer(g *tierlock.Grant) (tier, by string) {
	if g.Tier != 0 {
		tier = g.Tier.String()
	}
	if !g.RequestID.IsZero() {
		by = g.RequestID.Fingerprint()
	}
	return tier, by
}

const defaultTable = "tierlock_fence"

// defaults are the fences of the default table.
var defaults = map[Dialect]*Fence{
	SQLite:   newFence(Config{Dialect: SQLite}),
	Postgres: newFence(Config{Dialect: Postgres}),
	MySQL:    newFence(Config{Dialect: MySQL}),
}

// Schema is [Fence.Schema] of the default table. An unknown dialect has none.
func Schema(d Dialect) string { return strings.ReplaceAll(schemas[d], "{table}", defaultTable) }

// Enter is [Fence.Enter] of the default table, for a holder who has a token: zero is
// [ErrUnfenced].
func Enter(ctx context.Context, tx Tx, d Dialect, key tierlock.Key, token tierlock.Token) error {
	if err := d.Validate(); err != nil {
		return err
	}
	return defaults[d].Enter(ctx, tx, tierlock.Grant{Key: key, Token: token})
}
