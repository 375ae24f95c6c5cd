package daemon

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// The pauses between two attempts: short while a server is just starting, at most 30 s
// for one that stays away, so that it is found soon after it comes back.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// retry calls do until it succeeds or ctx ends. It says once that what cannot be reached,
// and once that it can be again; ok is false when ctx ended first.
func retry(ctx context.Context, log *slog.Logger, what string, do func(context.Context) error) (ok bool) {
	said := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do(ctx)
		switch {
		case err == nil && said:
			log.InfoContext(ctx, "reachable now", slog.String("server", what))
			return true
		case err == nil:
			log.InfoContext(ctx, "reachable", slog.String("server", what))
			return true
		case ctx.Err() != nil:
			return false
		case !said:
			log.WarnContext(ctx, "not reachable, trying again", slog.String("server", what), slog.Any("error", err))
			said = true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause/2 + rand.N(pause)): // ±50 %, so that a fleet does not knock at once
		}
	}
}
