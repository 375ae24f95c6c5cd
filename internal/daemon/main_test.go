package daemon

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Share(m)) }
