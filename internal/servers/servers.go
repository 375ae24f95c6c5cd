package servers

import (
	"os"
	"testing"
)

// Real says whether this run may start servers: TIERLOCK_SERVERS=real is set.
func Real() bool { return os.Getenv("TIERLOCK_SERVERS") == "real" }

// Need leaves the test out, saying so, unless real servers are wanted. Once they are, a
// server that cannot start fails the test: a run that claims real servers has had them.
// Every launcher of this package calls it.
func Need(tb testing.TB, what string) {
	tb.Helper()
	if !Real() {
		tb.Skipf("left out: needs a real %s; run make test", what)
	}
}
