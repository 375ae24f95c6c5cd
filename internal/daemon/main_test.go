package daemon

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(servers.Share(m),
		goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun")) // of the Nacos SDK: its log file has no close
}
