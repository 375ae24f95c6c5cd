package nacossource

import (
	"os/exec"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacostest"
)

// withoutRaceDetector runs the calling test in a binary that is built without it, and says
// whether it has. The SDK reads its connection unguarded while it reconnects (its issue
// 905); the connection is always of one type, so that costs it an old answer at most.
func withoutRaceDetector(t *testing.T) bool {
	t.Helper()
	if !raceDetector {
		return false
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout=2m", "-run=^"+t.Name()+"$", ".").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return true
}

// mortal is a server that can be killed, and held still.
type mortal interface {
	server
	Kill()
	Restart()
	Freeze()
	Thaw()
}

// onBoth runs a test on the fake and on rnacos.
func onBoth(t *testing.T, test func(t *testing.T, n mortal)) {
	t.Helper()
	if withoutRaceDetector(t) {
		return
	}
	t.Run("fake", func(t *testing.T) { test(t, nacostest.Start(t)) })
	t.Run("rnacos", func(t *testing.T) { test(t, servers.Nacos(t)) })
}

func TestServerGoesAndComesBack(t *testing.T) {
	onBoth(t, func(t *testing.T, n mortal) {
		put(n, 1)
		f := follow(t, open(t, n.Addr()))
		f.inForce(1, 6*time.Second)
		n.Kill()
		f.until("an alarm over no answer", 10*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 1 && why == switchcfg.WhyUnanswered })
		n.Restart()
		put(n, 2)
		t.Logf("in force %v after the restart", f.inForce(2, 15*time.Second).Round(time.Millisecond))
	})
}

func TestServerDownAtTheStart(t *testing.T) {
	onBoth(t, func(t *testing.T, n mortal) {
		n.Kill()
		begin := time.Now()
		s := open(t, n.Addr())
		if took := time.Since(begin); took > time.Second {
			t.Errorf("New took %v", took)
		}
		f := follow(t, s)
		f.until("an alarm over no answer", 6*time.Second, func(_ uint64, why switchcfg.Why) bool { return why == switchcfg.WhyUnanswered })
		n.Restart()
		put(n, 1)
		t.Logf("in force %v after the start", f.inForce(1, 15*time.Second).Round(time.Millisecond))
	})
}

// A server that stops answering while its connections stay open.
func TestServerFreezesAndThaws(t *testing.T) {
	onBoth(t, func(t *testing.T, n mortal) {
		put(n, 1)
		f := follow(t, open(t, n.Addr()))
		f.inForce(1, 6*time.Second)
		n.Freeze()
		f.until("an alarm over no answer", 10*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 1 && why == switchcfg.WhyUnanswered })
		n.Thaw()
		put(n, 2)
		t.Logf("in force %v after the thaw", f.inForce(2, 20*time.Second).Round(time.Millisecond))
	})
}
