package incident

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// mostFailures is how many checks in a row may fail before no more of that business type
// are tried: the database is away, or the check is wrong.
const mostFailures = 20

// check asks the business about every record that was touched, in a finding or not: what
// went wrong without an overlap that the events show is found this way.
func check(ctx context.Context, cfg *Config, all []*touched) error {
	failures := map[string]int{}
	for _, t := range all {
		hook, hooked := cfg.Hooks[t.Type]
		if !hooked || hook.Check == nil {
			continue
		}
		if failures[t.Type] >= mostFailures {
			t.Check, t.Error = Failed, "not asked: the checks before it failed"
			continue
		}
		wrong, err := ask(ctx, cfg.CheckTimeout, hook, t)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failures[t.Type]++
			t.Check, t.Error = Failed, err.Error()
			cfg.Logger.WarnContext(ctx, "check failed", "type", t.Type, "error", err)
			continue
		case wrong > 0:
			t.Check, t.Wrong = Wrong, wrong
		default:
			t.Check = Clean
		}
		failures[t.Type] = 0
	}
	return nil
}

// ask puts one record to its check, in the name of the hold that lost, or else of the last.
func ask(ctx context.Context, timeout time.Duration, hook reconcile.Hook, t *touched) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sum := sha256.Sum256([]byte("tierlock.report\x00" + t.Type + "\x00" + t.ID))
	c := reconcile.Case{ID: hex.EncodeToString(sum[:16]), Action: "report", Loser: t.hold, Business: t.hold.Business}
	return hook.Check.Check(ctx, c)
}
