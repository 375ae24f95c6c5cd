package nacossource

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg/nacostest"
)

// TestAFlipArrivesByPush: nobody polls here for an hour, so what arrives was pushed. One push
// may be lost while the SDK begins to listen, and not every one of them.
func TestAFlipArrivesByPush(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		if !apart(t) {
			arrivesByPush(t, nacostest.Start(t))
		}
	})
	t.Run("rnacos", func(t *testing.T) {
		t.Parallel()
		if !apart(t) {
			arrivesByPush(t, servers.Nacos(t))
		}
	})
}

func arrivesByPush(t *testing.T, n server) {
	t.Helper()
	put(n, 1)
	f := followEvery(t, open(t, n.Addr()), time.Hour)
	f.inForce(1, 20*time.Second)
	for version := 2; version <= 20; version++ {
		put(n, version)
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
			f.mu.Lock()
			arrived := f.version >= uint64(version)
			f.mu.Unlock()
			if arrived {
				t.Logf("version %d was pushed", version)
				return
			}
		}
	}
	t.Error("none of 19 flips was pushed")
}
