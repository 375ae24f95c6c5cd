package order

import "github.com/tierlock/tierlock/guard"

// stock names the rows that carry a version.
var stock = guard.Row{Table: "stock", ID: "sku"}

// words are the statements that differ from one database to another.
type words struct{ place, take string }

func wordsOf(d guard.Dialect) words {
	if d == guard.MySQL {
		return words{
			place: `INSERT IGNORE INTO orders (id, sku) VALUES (?, ?)`,
			take:  `UPDATE stock SET pieces = pieces - 1 WHERE sku = ? AND pieces > 0`,
		}
	}
	return words{
		place: `INSERT INTO orders (id, sku) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
		take:  `UPDATE stock SET pieces = pieces - 1 WHERE sku = $1 AND pieces > 0`,
	}
}

// Schema is what the service needs in its database, in order. The statements are the same
// everywhere but for the fence table of package guard.
func Schema(d guard.Dialect) []string {
	return []string{
		guard.Schema(d),
		`CREATE TABLE IF NOT EXISTS stock (
  sku     VARCHAR(64) NOT NULL PRIMARY KEY,
  pieces  BIGINT      NOT NULL,
  version BIGINT      NOT NULL DEFAULT 0
)`,
		`CREATE TABLE IF NOT EXISTS orders (
  id  VARCHAR(64) NOT NULL PRIMARY KEY,
  sku VARCHAR(64) NOT NULL
)`,
	}
}
