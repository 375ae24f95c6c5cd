package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierlock/tierlock"
)

// Adopt forwards what a dead producer left in cfg.Dir, in that producer's name, and seals
// its epoch. It ends with ctx (5 s when that has no end): what was not sent by then stays
// for the next who adopts the folder, and is an error. A folder with nothing to do is left
// as it is.
//
// It holds the folder meanwhile: a producer that comes back must wait. So it first asks
// the sink whether it is there, and gives up with ctx. A folder in use is an error that
// matches [spool.ErrLocked]; cfg.Producer counts only where no segment tells the name.
func Adopt(ctx context.Context, cfg Config) (Folder, error) {
	if cfg.Sink == nil {
		return Folder{}, tierlock.Invalid("audit.sink", "", "is required: an adopted folder is forwarded")
	}
	before, err := Inspect(cfg.FS, cfg.Dir)
	if err != nil || before.Settled() {
		return before, err
	}
	if before.InUse {
		return before, fmt.Errorf("audit: adopt %s: %w", cfg.Dir, ErrLocked)
	}
	if _, err := cfg.Sink.Partitions(ctx); err != nil {
		return before, fmt.Errorf("audit: adopt %s: %w", cfg.Dir, err)
	}
	if before.Producer != "" {
		cfg.Producer = before.Producer
	}
	cfg.Heartbeat = noHeartbeat // the producer does not live
	l, err := Open(cfg)
	if err != nil {
		return before, err
	}
	err = l.Close(ctx)
	after, lookErr := Inspect(cfg.FS, cfg.Dir)
	if n := after.Backlog(); err == nil && lookErr == nil && n > 0 {
		err = fmt.Errorf("audit: adopt %s: %d events are not sent yet", cfg.Dir, n)
	}
	return after, errors.Join(err, lookErr)
}

const noHeartbeat = 24 * 365 * time.Hour
