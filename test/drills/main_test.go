package drills

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/test/pulse"
)

func TestMain(m *testing.M) {
	beat = pulse.Start()
	goleak.VerifyTestMain(ending{m})
}

// ending stops the pulse before goroutines are counted.
type ending struct{ m *testing.M }

func (e ending) Run() int {
	defer beat.Stop()
	return e.m.Run()
}

// beat tells how long this process did not get to run.
var beat *pulse.Pulse

// soak says whether there is time for minutes of it.
func soak() bool { return os.Getenv("TIERLOCK_SOAK") != "" }

// lasts is short, or long where there is time.
func lasts(short, long time.Duration) time.Duration {
	if soak() {
		return long
	}
	return short
}

// ran is how much of the time since began this process got to run.
func ran(began time.Time) time.Duration {
	now := time.Now()
	return now.Sub(began) - beat.Stalled(began, now)
}

func wait(d time.Duration) { <-time.After(d) }

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); wait(10 * time.Millisecond) {
		if ran(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
