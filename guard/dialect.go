package guard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tierlock/tierlock"
)

// Dialect is the SQL a database speaks. The zero Dialect is invalid.
type Dialect uint8

// The dialects. Each is tested against the real thing: MariaDB 10.11 in every run, MySQL
// 9.7 where a run is told of one (docs/guard.md).
const (
	SQLite   Dialect = iota + 1 // 3.24 or later, for upserts
	Postgres                    // 9.5 or later, for the same reason
	MySQL                       // MySQL 8 and MariaDB 10.6 or later, tables in InnoDB
)

var dialectWords = [...]string{SQLite: "sqlite", Postgres: "postgres", MySQL: "mysql"}

// String is the word for d in files and messages.
func (d Dialect) String() string {
	if d < SQLite || d > MySQL {
		return "invalid"
	}
	return dialectWords[d]
}

// Validate refuses the zero Dialect and unknown ones.
func (d Dialect) Validate() error {
	if d < SQLite || d > MySQL {
		return tierlock.Invalid("dialect", strconv.Itoa(int(d)), "want guard.SQLite, guard.Postgres or guard.MySQL")
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

// now is the database's own clock, as it stands in the fence table. PostgreSQL's now()
// would be the start of the transaction, which may have waited long for the row.
func (d Dialect) now() string {
	switch d {
	case SQLite:
		return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
	case Postgres:
		return "clock_timestamp()"
	}
	return "UTC_TIMESTAMP(6)"
}

// ago is the database's clock ? seconds ago.
func (d Dialect) ago() string {
	switch d {
	case SQLite:
		return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || ? || ' seconds')"
	case Postgres:
		return "clock_timestamp() - ? * interval '1 second'"
	}
	return "UTC_TIMESTAMP(6) - INTERVAL ? SECOND"
}

// forUpdate has a SELECT lock its row, where a read would not see what a write sees.
func (d Dialect) forUpdate() string {
	if d == SQLite {
		return "" // one writer at a time: whoever has written sees everything
	}
	return " FOR UPDATE"
}

// identifier accepts letters, digits and _, not starting with a digit, at most 63 of them;
// and, where dotted is true, two such words with a dot between. 63 is what PostgreSQL
// keeps of a name: it cuts the rest off, and two names would be one.
func identifier(s string, dotted bool) bool {
	words := strings.Split(s, ".")
	if len(words) > 2 || len(words) == 2 && !dotted {
		return false
	}
	for _, w := range words {
		if w == "" || len(w) > 63 || w[0] >= '0' && w[0] <= '9' {
			return false
		}
		for _, c := range []byte(w) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
				return false
			}
		}
	}
	return true
}
