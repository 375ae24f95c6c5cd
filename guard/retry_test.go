package guard_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tierlock/tierlock/guard"
)

// mysqlError has the shape of go-sql-driver's; the real one is met in the module test.
type mysqlError struct {
	Number   uint16
	SQLState [5]byte
	Message  string
}

func (e *mysqlError) Error() string { return e.Message }

// mattnError has the shape of mattn/go-sqlite3's, which needs C.
type mattnError struct {
	Code         int
	ExtendedCode int
}

func (mattnError) Error() string { return "sqlite" }

// codeError numbers its errors as modernc.org/sqlite does, which is met in sql_test.go.
type codeError struct{ code int }

func (e codeError) Error() string { return "coded" }
func (e codeError) Code() int     { return e.code }

func TestRetryable(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                    {nil, false},
		"other":                  {errors.New("40001"), false},
		"ours":                   {fmt.Errorf("x: %w", guard.ErrRetry), true},
		"stale":                  {guard.ErrStale, false},
		"postgres serialization": {fmt.Errorf("x: %w", &pgconn.PgError{Code: "40001"}), true},
		"postgres deadlock":      {&pgconn.PgError{Code: "40P01"}, true},
		"postgres lock timeout":  {&pgconn.PgError{Code: "55P03"}, true},
		"postgres unique":        {&pgconn.PgError{Code: "23505"}, false},
		"mysql deadlock":         {errors.Join(errors.New("y"), fmt.Errorf("x: %w", &mysqlError{Number: 1213})), true},
		"mysql lock wait":        {&mysqlError{Number: 1205}, true},
		"mysql snapshot":         {&mysqlError{Number: 1020}, true},
		"mysql nowait":           {&mysqlError{Number: 3572}, true},
		"mysql duplicate":        {&mysqlError{Number: 1062}, false},
		"mysql nil":              {(*mysqlError)(nil), false},
		"a number of another's":  {codeError{5}, false},
		"mattn busy":             {mattnError{Code: 5}, true},
		"mattn constraint":       {fmt.Errorf("x: %w", mattnError{Code: 19}), false},
	} {
		if got := guard.Retryable(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
