package reconcile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tierlock/tierlock"
)

// Dialect is the SQL of the database that findings or repairs are in. The zero Dialect is
// invalid.
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
		return tierlock.Invalid("dialect", strconv.Itoa(int(d)), "want reconcile.SQLite or reconcile.Postgres")
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

// Schema are the statements that create tierlock_findings, where [SQLFindings] keeps
// findings, and tierlock_repairs, where a [SQLHook] keeps the keys of what it has applied.
// The second belongs in the business database, so that row and repair are one transaction.
func Schema(d Dialect) []string {
	flag := "INTEGER"
	if d == Postgres {
		flag = "BOOLEAN"
	}
	return []string{
		`CREATE TABLE IF NOT EXISTS tierlock_findings (
  id         TEXT NOT NULL PRIMARY KEY,
  revision   BIGINT NOT NULL,
  digest     TEXT NOT NULL,
  stage      INTEGER NOT NULL,
  state      TEXT NOT NULL,
  kind       TEXT NOT NULL,
  chain      TEXT NOT NULL,
  lock_key   TEXT NOT NULL,
  certain    ` + flag + ` NOT NULL,
  from_us    BIGINT NOT NULL,
  to_us      BIGINT NOT NULL,
  document   TEXT NOT NULL
)`,
		`CREATE INDEX IF NOT EXISTS tierlock_findings_key ON tierlock_findings (lock_key)`,
		`CREATE TABLE IF NOT EXISTS tierlock_repairs (
  repair_key    TEXT NOT NULL PRIMARY KEY,
  finding_id    TEXT NOT NULL,
  action        TEXT NOT NULL,
  business_type TEXT NOT NULL,
  business_id   TEXT NOT NULL,
  loser         TEXT NOT NULL,
  wrong         BIGINT NOT NULL,
  applied_us    BIGINT NOT NULL
)`,
	}
}
