package localfallback

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
)

// checkTTL refuses what is no length of time.
func checkTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return tierlock.Invalid("ttl", ttl.String(), "want more than 0")
	}
	return nil
}

// ended is the fault of a question whose context had ended before it was asked.
func ended(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &tierlock.Fault{Reason: tierlock.ReasonAttempt, Err: err}
	}
	return &tierlock.Fault{Reason: tierlock.ReasonCanceled, Err: err}
}
