// Package memredis STANDS IN for a Redis server inside the process, so that the demo needs
// nothing installed. The lock's real scripts run on it over a real socket. Its speed and
// its timing say nothing about Redis.
package memredis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const (
	// tick is how often the clock of the keys is moved on.
	tick = 10 * time.Millisecond
	// step is the most it is moved at once. A key loses up to one step of its ttl when it
	// was made just before the tick, so a step must stay well under the 50 ms that every
	// grant keeps as its margin. When the process was stalled for longer, the clock catches
	// up over several ticks: keys then live too long, which is the safe side.
	step = 20 * time.Millisecond
)

// Server is a running Redis stand-in. All methods may be called from any goroutine.
type Server struct {
	redis *miniredis.Miniredis
	stop  context.CancelFunc
	work  sync.WaitGroup
}

// Start listens on a free loopback port and starts the clock. Close ends both.
func Start(log *slog.Logger) (*Server, error) {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		return nil, fmt.Errorf("start the in-process redis: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{redis: redis, stop: stop}
	s.work.Go(func() { s.clock(ctx) })
	log.Debug("in-process redis started", slog.String("addr", redis.Addr()))
	return s, nil
}

// Addr is host and port.
func (s *Server) Addr() string { return s.redis.Addr() }

// Close ends the server and waits for its clock.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
	s.redis.Close()
}

// clock expires keys: the stand-in moves their ttl only when told to.
func (s *Server) clock(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	told := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if d := min(time.Since(told), step); d > 0 {
			s.redis.FastForward(d)
			told = told.Add(d)
		}
	}
}
