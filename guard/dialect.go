package guard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tierlock/tierlock"
)

// Dialect is the SQL a database speaks. The zero Dialect is invalid.
type Dialect uint8

// The dialects. Both are tested against the real thing.
const (
	SQLite   Dialect = iota + 1 // 3.24 or later, for upserts
	Postgres                    // 9.5 or later, for the same reason
)

// String is the word for d in files and messages.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "sqlite"
	case Postgres:
		return "postgres"
	}
	return "invalid"
}

// Validate refuses the zero Dialect and unknown ones.
func (d Dialect) Validate() error {
	if d != SQLite && d != Postgres {
		return tierlock.Invalid("dialect", strconv.Itoa(int(d)), "want guard.SQLite or guard.Postgres")
	}
	return nil
}

// bind writes the dialect's placeholders for each ? of query. The queries are this
// package's own and hold no other question mark.
func (d Dialect) bind(query string) string {
	if d != Postgres {
		return query
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, more := strings.Cut(query, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		fmt.Fprintf(&b, "$%d", n)
		query = after
	}
}
