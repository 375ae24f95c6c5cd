package drills

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/pulse"
)

func TestMain(m *testing.M) {
	beat = pulse.Start()
	goleak.VerifyTestMain(ending{m}, lumberjack)
}

// lumberjack is of the Nacos SDK: its log file has no close.
var lumberjack = goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun")

// ending stops the pulse before goroutines are counted, and waits for what nobody can wait
// for: kafka-go's transport closes idle connections only, and one that was being made ends by
// itself.
type ending struct{ m *testing.M }

func (e ending) Run() int {
	code := e.m.Run()
	beat.Stop()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && goleak.Find(lumberjack) != nil; {
		wait(100 * time.Millisecond)
	}
	return code
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
