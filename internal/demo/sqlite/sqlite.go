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

// Open creates or opens shop.db in dir. Writers queue for up to 5 s; a transaction takes
// the write lock when it begins, since one that reads first and writes later would be
// refused when another wrote in between. The file is not synced: the demo does not outlive
// a power cut, and its numbers must not be those of the disk.
func Open(dir string) (*sql.DB, error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"journal_mode(wal)", "busy_timeout(5000)", "synchronous(off)"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open the business database: %w", err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, nil
}
