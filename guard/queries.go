package guard

import "strings"

// queries of one fence.
type queries struct {
	lock   string // InnoDB only: make the row where it is missing, and lock it
	mark   string // the token in the row, locked; InnoDB's also has the entries, now and as a plain read sees them
	enter  string // raise the mark
	pass   string // leave the mark, and put the passage on record
	sweep  string // a page of idle keys
	remove string // those of them that are still idle; ends before its list of keys
}

// queriesOf fills the names and the words of the dialect in.
func queriesOf(d Dialect, table string) queries {
	q := upserts
	if d == MySQL {
		q = innodb
	}
	q.sweep = `SELECT lock_key FROM {table} WHERE lock_key > ? AND touched_at < {ago} ORDER BY lock_key LIMIT ?`
	q.remove = `DELETE FROM {table} WHERE touched_at < {ago} AND lock_key IN (`
	fill := strings.NewReplacer("{table}", table, "{now}", d.now(), "{ago}", d.ago(), "{for update}", d.forUpdate())
	for _, text := range []*string{&q.lock, &q.mark, &q.enter, &q.pass, &q.sweep, &q.remove} {
		*text = fill.Replace(*text)
	}
	for _, text := range []*string{&q.lock, &q.mark, &q.enter, &q.pass, &q.sweep} {
		*text = d.bind(*text)
	}
	return q
}

// upserts are for SQLite and PostgreSQL: one statement makes the row or locks it, and
// raises the mark unless that is higher. PostgreSQL locks the row also where it then
// changes nothing, and above READ COMMITTED refuses a row that changed since the snapshot.
var upserts = queries{
	mark: `SELECT token FROM {table} WHERE lock_key = ?{for update}`,
	enter: `INSERT INTO {table} AS f (lock_key, token, entries, touched_at) VALUES (?, ?, 1, {now})
ON CONFLICT (lock_key) DO UPDATE SET token = excluded.token, entries = f.entries + 1, touched_at = excluded.touched_at
WHERE f.token <= excluded.token`,
	pass: `INSERT INTO {table} AS f (lock_key, token, entries, unfenced, unfenced_tier, unfenced_by, unfenced_at, touched_at)
VALUES (?, 0, 1, 1, ?, ?, {now}, {now})
ON CONFLICT (lock_key) DO UPDATE SET entries = f.entries + 1, unfenced = f.unfenced + 1, unfenced_tier = excluded.unfenced_tier,
  unfenced_by = excluded.unfenced_by, unfenced_at = excluded.unfenced_at, touched_at = excluded.touched_at`,
}

// innodb is for MySQL and MariaDB, whose REPEATABLE READ would let a transaction read on
// from an old snapshot under a lock it has just got. Three statements:
//
//  1. An insert that becomes an update of nothing locks the row, missing or not, and makes
//     no snapshot. (A SELECT … FOR UPDATE of a missing row would lock a gap, which two
//     transactions may do at once, and each would then wait for the other's insert.)
//  2. A locking read gives the row as it is now. Its subquery is a plain read, and gives the
//     row as this transaction's snapshot has it. The snapshot is made here at the latest,
//     under the lock; if it was made before, and somebody has entered since, the two
//     counts of entries differ.
//  3. The update counts this entry.
var innodb = queries{
	lock:  `INSERT INTO {table} (lock_key, token, entries, touched_at) VALUES (?, 0, 0, {now}) ON DUPLICATE KEY UPDATE entries = entries`,
	mark:  `SELECT token, entries, (SELECT seen.entries FROM {table} AS seen WHERE seen.lock_key = ?) FROM {table} WHERE lock_key = ?{for update}`,
	enter: `UPDATE {table} SET token = ?, entries = entries + 1, touched_at = {now} WHERE lock_key = ?`,
	pass: `UPDATE {table} SET entries = entries + 1, unfenced = unfenced + 1, unfenced_tier = ?, unfenced_by = ?,
  unfenced_at = {now}, touched_at = {now} WHERE lock_key = ?`,
}
