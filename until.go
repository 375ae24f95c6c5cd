package tierlock

import (
	"context"
	"time"
)

// Until is ctx with a deadline and no timer: one allocation instead of five. Deadline
// tells t, or ctx's own deadline where that is earlier; Done is ctx's and does not fire
// at t. It is what backends are called with, since a store has to put the deadline on its
// socket anyway.
func Until(ctx context.Context, t time.Time) context.Context {
	if d, ok := ctx.Deadline(); ok && d.Before(t) {
		return ctx
	}
	return until{ctx, t}
}

type until struct {
	context.Context
	t time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.t, true }
