// Package sqlite OPENS the demo's business database in pure Go: one file in a folder of
// the demo's own, behind database/sql.
package sqlite

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// Open creates or opens shop.db in dir, with one connection: SQLite lets one writer in at a
// time, and those who wait in line for a connection are served sooner than those who poll
// for the file's lock. So no transaction may ask outside of itself. A transaction takes the
// write lock when it begins, since one that reads first and writes later would be refused
// when another process wrote in between. The file is not synced: the demo does not outlive
// a power cut, and its numbers must not be those of the disk.
func Open(dir string) (*sql.DB, error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"journal_mode(wal)", "busy_timeout(5000)", "synchronous(off)"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open the business database: %w", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}
