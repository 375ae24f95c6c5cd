package daemon

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) {
	if writerMain() {
		return
	}
	// Tests with servers of their own wait for them: two at a time leave two cores idle. Who says
	// -parallel has his way.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	if err := os.Setenv("USER", "tester"); err != nil { // who publishes
		panic(err)
	}
	goleak.VerifyTestMain(patient{servers.Share(m)}, lumberjack)
}

// lumberjack is of the Nacos SDK: its log file has no close.
var lumberjack = goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun")

// patient waits for what nobody can wait for: kafka-go's transport closes idle connections
// only, and one that was being made when the last test ended ends by itself, later than
// goleak looks on a busy machine.
type patient struct{ goleak.TestingM }

func (p patient) Run() int {
	code := p.TestingM.Run()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if goleak.Find(lumberjack) == nil {
			break
		}
	}
	return code
}
