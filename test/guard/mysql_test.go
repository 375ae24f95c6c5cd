package guard

import (
	"database/sql"
	"testing"

	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/guard/guardtest"
	"github.com/tierlock/tierlock/test/mysql"
)

// MySQL itself, which is not MariaDB: another InnoDB, other locks.
func TestSuiteOnMySQL(t *testing.T) {
	mysql.DSN(t) // left out as a whole, and the version once
	guardtest.Run(t, guardtest.Database{Dialect: guard.MySQL, Open: func(tb testing.TB) *sql.DB { return openDB(tb, mysql.DSN(tb)) }})
}

func TestShopOnRedisAndMySQL(t *testing.T) {
	testShop(t, guard.MySQL, openDB(t, mysql.DSN(t)))
}
