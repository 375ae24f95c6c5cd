package nacossource

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacostest"
)

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
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		if !apartUnraced(t) {
			test(t, nacostest.Start(t))
		}
	})
	t.Run("rnacos", func(t *testing.T) {
		t.Parallel()
		if !apartUnraced(t) {
			test(t, servers.Nacos(t))
		}
	})
}

// away takes the server away from one who follows it and brings it back with another version,
// which is in force within a time.
func away(t *testing.T, n mortal, goes, comes func(), within time.Duration) {
	t.Helper()
	put(n, 1)
	f := follow(t, open(t, n.Addr()))
	f.inForce(1, 6*time.Second)
	goes()
	f.until("an alarm over no answer", 10*time.Second, func(v uint64, why switchcfg.Why) bool { return v == 1 && why == switchcfg.WhyUnanswered })
	comes()
	put(n, 2)
	t.Logf("in force %v after it came back", f.inForce(2, within).Round(time.Millisecond))
}

func TestServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, n mortal) { away(t, n, n.Kill, n.Restart, 15*time.Second) })
}

// A server that stops answering while its connections stay open.
func TestServerFreezesAndThaws(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, n mortal) { away(t, n, n.Freeze, n.Thaw, 20*time.Second) })
}

func TestServerDownAtTheStart(t *testing.T) {
	t.Parallel()
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
