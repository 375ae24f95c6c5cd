package nacossource

import (
	"os/exec"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
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

func TestServerGoesAndComesBack(t *testing.T) {
	servers.Need(t, "Nacos (rnacos)")
	if withoutRaceDetector(t) {
		return
	}
	n := servers.Nacos(t)
	put(n, 1)
	f := follow(t, open(t, n.Addr()))
	f.inForce(1, 6*time.Second)
	n.Kill()
	f.until("an alarm over no answer", 10*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 1 && why == switchcfg.WhyUnanswered })
	n.Restart()
	put(n, 2)
	t.Logf("in force %v after the restart", f.inForce(2, 15*time.Second).Round(time.Millisecond))
}

func TestServerDownAtTheStart(t *testing.T) {
	servers.Need(t, "Nacos (rnacos)")
	if withoutRaceDetector(t) {
		return
	}
	n := servers.Nacos(t)
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
}

// A server that stops answering while its connections stay open.
func TestServerFreezesAndThaws(t *testing.T) {
	servers.Need(t, "Nacos (rnacos)")
	if withoutRaceDetector(t) {
		return
	}
	n := servers.Nacos(t)
	put(n, 1)
	f := follow(t, open(t, n.Addr()))
	f.inForce(1, 6*time.Second)
	n.Freeze()
	f.until("an alarm over no answer", 10*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 1 && why == switchcfg.WhyUnanswered })
	n.Thaw()
	put(n, 2)
	t.Logf("in force %v after the thaw", f.inForce(2, 20*time.Second).Round(time.Millisecond))
}
