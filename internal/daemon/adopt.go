package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tierlock/tierlock/audit"
)

// adoptEvery is how often the daemon looks for orphans. It adopts a folder that was one
// twice in a row: who is being restarted finds its own folder free.
const adoptEvery = 30 * time.Second

// adoptFor bounds how long a folder is held in one go: a producer that comes back waits no
// longer for its own, and whoever starts it tries again.
const adoptFor = 10 * time.Second

// adoptOrphans forwards, for as long as the daemon runs, what producers that are dead left
// in the sub-folders of audit.adopt.
func (s *System) adoptOrphans(conf audit.Config) {
	if s.cfg.Audit.Adopt == "" {
		return
	}
	a := adopter{conf: conf, in: s.cfg.Audit.Adopt, own: conf.Dir, log: s.log, seen: map[string]bool{}}
	s.loops = append(s.loops, func(ctx context.Context) { a.run(ctx, adoptEvery) })
}

type adopter struct {
	conf audit.Config // of the daemon's own spool; Dir is replaced
	in   string
	own  string
	log  *slog.Logger
	seen map[string]bool // orphans of the round before
}

func (a *adopter) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		a.round(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// round adopts what was an orphan before and still is.
func (a *adopter) round(ctx context.Context) {
	entries, err := os.ReadDir(a.in)
	if err != nil {
		a.log.WarnContext(ctx, "no orphans can be looked for", slog.Any("error", err))
		return
	}
	now := map[string]bool{}
	for _, e := range entries {
		dir := filepath.Join(a.in, e.Name())
		if !e.IsDir() || !isSpool(dir) || sameFolder(dir, a.own) || ctx.Err() != nil {
			continue
		}
		folder, err := audit.Inspect(a.conf.FS, dir)
		switch {
		case err != nil:
			a.log.WarnContext(ctx, "spool cannot be looked at", slog.String("dir", dir), slog.Any("error", err))
		case folder.InUse || folder.Settled():
		case !a.seen[dir]:
			now[dir] = true
		default:
			now[dir] = !a.adopt(ctx, dir, folder)
		}
	}
	a.seen = now
}

// adopt tells whether nothing is left to do.
func (a *adopter) adopt(ctx context.Context, dir string, folder audit.Folder) bool {
	ctx, cancel := context.WithTimeout(ctx, adoptFor)
	defer cancel()
	conf := a.conf
	conf.Dir = dir
	after, err := audit.Adopt(ctx, conf)
	log := a.log.With(slog.String("dir", dir), slog.String("producer", folder.Producer), slog.Uint64("backlog", after.Backlog()))
	switch {
	case errors.Is(err, audit.ErrLocked): // its producer is back
		log.InfoContext(ctx, "spool is in use again")
	case err != nil:
		log.WarnContext(ctx, "spool of a dead producer is not forwarded yet", slog.Any("error", err))
	default:
		log.InfoContext(ctx, "spool of a dead producer was adopted and forwarded", slog.Uint64("events", folder.Backlog()))
	}
	return err == nil
}

func sameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
