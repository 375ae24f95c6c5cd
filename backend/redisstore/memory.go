package redisstore

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"
)

// memory is since when a server remembers what it granted; nil: not known.
type memory struct{ since atomic.Pointer[time.Time] }

// began takes in that nothing from before at is remembered for sure.
func (m *memory) began(at time.Time) {
	for {
		old := m.since.Load()
		if old != nil && !at.After(*old) || m.since.CompareAndSwap(old, &at) {
			return
		}
	}
}

// meet takes in which server answers on a new connection, by what its INFO says. One that
// is met first remembers since it was started, at the latest by the whole seconds that it
// tells; one in the place of another, since now.
func (n *node) meet(ctx context.Context, info string, now time.Time) {
	if n.clock.meet(infoField(info, "run_id")) {
		n.memory.began(now)
		n.cfg.Logger.InfoContext(ctx, "redis is another process than before", slog.String("addr", n.addr))
		return
	}
	if up, err := strconv.ParseInt(infoField(info, "uptime_in_seconds"), 10, 64); err == nil && n.memory.since.Load() == nil {
		n.memory.began(now.Add(-time.Duration(up) * time.Second))
	}
}

// Since tells when the server that serves target was started, or put in the place of
// another; of several, the latest.
func (s *Store) Since(target string) (since time.Time, ok bool) {
	for _, n := range s.servers.serving(target) {
		if at := n.memory.since.Load(); at != nil && (!ok || at.After(since)) {
			since, ok = *at, true
		}
	}
	return since, ok
}
