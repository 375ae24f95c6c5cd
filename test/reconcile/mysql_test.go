package reconcile

import (
	"testing"

	"github.com/tierlock/tierlock/test/mysql"
)

// TestOnMySQL is TestOnMariaDB and TestApprovalsOnMariaDB on MySQL itself, whatever its
// driver counts.
func TestOnMySQL(t *testing.T) {
	for name, more := range map[string]string{"rows changed": "", "rows found": "?clientFoundRows=true"} {
		t.Run(name, func(t *testing.T) {
			dsn := mysql.DSN(t) + more
			findings(t, openDB(t, dsn))
			once(t, openDB(t, dsn))
			approvals(t, openDB(t, dsn))
		})
	}
}
