package spec_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var farAway = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
