package order

import "github.com/tierlock/tierlock/guard"

// stock names the rows that carry a version.
var stock = guard.Row{Table: "stock", ID: "sku"}

// Schema is what the service needs in its database, in order. The statements are the same
// on SQLite and PostgreSQL but for the fence table of package guard.
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
