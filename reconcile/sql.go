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

// The dialects. Each is tested against the real thing: MariaDB 10.11 in every run, MySQL
// 9.7 where a run is told of one (docs/guard.md).
const (
	SQLite   Dialect = iota + 1 // 3.24 or later, for upserts
	Postgres                    // 9.5 or later, for the same reason
	MySQL                       // 8.0 or later with InnoDB, or MariaDB 10.6 or later
)

// String is the word for d in files and messages.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "sqlite"
	case Postgres:
		return "postgres"
	case MySQL:
		return "mysql"
	}
	return "invalid"
}

// Validate refuses the zero Dialect and unknown ones.
func (d Dialect) Validate() error {
	if d < SQLite || d > MySQL {
		return tierlock.Invalid("dialect", strconv.Itoa(int(d)), "want reconcile.SQLite, reconcile.Postgres or reconcile.MySQL")
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

// flag is the type of a yes or no, and no its word for no.
func (d Dialect) flag() string {
	if d == SQLite {
		return "INTEGER"
	}
	return "BOOLEAN"
}

func (d Dialect) no() string {
	if d == SQLite {
		return "0"
	}
	return "FALSE"
}

// Schema are the statements that create tierlock_findings, where [SQLFindings] keeps
// findings, tierlock_approvals, where [SQLApprovals] keeps who has said yes to what,
// tierlock_repairs, where a [SQLHook] keeps the keys of what it has applied, and
// tierlock_messages, where a [PublishHook] keeps what it sends. The last two belong in the
// business database, the third so that row and repair are one transaction.
func Schema(d Dialect) []string {
	// A key is compared byte by byte and has room in an index: MySQL needs to be told both.
	id, key, long, bytes, flag, end := "TEXT", "TEXT", "TEXT", "BLOB", d.flag(), ""
	switch d {
	case Postgres:
		bytes = "BYTEA"
	case MySQL:
		id, key, long, bytes = "VARCHAR(64)", "VARCHAR(256)", "LONGTEXT", "LONGBLOB"
		end = " ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
	}
	findings := `CREATE TABLE IF NOT EXISTS tierlock_findings (
  id         ` + id + ` NOT NULL PRIMARY KEY,
  revision   BIGINT NOT NULL,
  digest     ` + id + ` NOT NULL,
  stage      INTEGER NOT NULL,
  state      ` + id + ` NOT NULL,
  kind       ` + id + ` NOT NULL,
  chain      ` + key + ` NOT NULL,
  lock_key   ` + key + ` NOT NULL,
  certain    ` + flag + ` NOT NULL,
  provisional ` + flag + ` NOT NULL DEFAULT ` + d.no() + `,
  from_us    BIGINT NOT NULL,
  to_us      BIGINT NOT NULL,
  document   ` + long + ` NOT NULL`
	repairs := `CREATE TABLE IF NOT EXISTS tierlock_repairs (
  repair_key    ` + id + ` NOT NULL PRIMARY KEY,
  finding_id    ` + id + ` NOT NULL,
  action        ` + key + ` NOT NULL,
  business_type ` + key + ` NOT NULL,
  business_id   ` + long + ` NOT NULL,
  loser         ` + long + ` NOT NULL,
  wrong         BIGINT NOT NULL,
  applied_us    BIGINT NOT NULL
)` + end
	messages := `CREATE TABLE IF NOT EXISTS tierlock_messages (
  repair_key    ` + id + ` NOT NULL PRIMARY KEY,
  finding_id    ` + id + ` NOT NULL,
  action        ` + key + ` NOT NULL,
  business_type ` + key + ` NOT NULL,
  business_id   ` + long + ` NOT NULL,
  value         ` + bytes + ` NOT NULL,
  made_us       BIGINT NOT NULL,
  sent_us       BIGINT NOT NULL
)` + end
	approvals := `CREATE TABLE IF NOT EXISTS tierlock_approvals (
  repair_key    ` + id + ` NOT NULL,
  round         INTEGER NOT NULL,
  finding_id    ` + id + ` NOT NULL,
  partition_no  INTEGER NOT NULL,
  action        ` + key + ` NOT NULL,
  business_type ` + key + ` NOT NULL,
  business_id   ` + long + ` NOT NULL,
  lock_key      ` + key + ` NOT NULL,
  amount        BIGINT NOT NULL,
  approvers     INTEGER NOT NULL,
  valid_us      BIGINT NOT NULL,
  asked_by      ` + key + ` NOT NULL,
  asked_us      BIGINT NOT NULL,
  first_by      ` + key + ` NOT NULL,
  first_us      BIGINT NOT NULL,
  second_by     ` + key + ` NOT NULL,
  second_us     BIGINT NOT NULL,
  rejected_by   ` + key + ` NOT NULL,
  rejected_us   BIGINT NOT NULL,
  reason        ` + long + ` NOT NULL,
  result        ` + id + ` NOT NULL,
  done_us       BIGINT NOT NULL,
  document      ` + long + ` NOT NULL,
  PRIMARY KEY (repair_key, round)
)` + end
	if d == MySQL { // which knows no CREATE INDEX IF NOT EXISTS
		return []string{findings + ",\n  INDEX tierlock_findings_key (lock_key)\n)" + end, repairs, messages, approvals}
	}
	return []string{
		findings + "\n)", `CREATE INDEX IF NOT EXISTS tierlock_findings_key ON tierlock_findings (lock_key)`,
		repairs, messages, approvals,
	}
}
