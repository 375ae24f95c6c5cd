package gateway

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
)

// takeDebt takes over what the ledger still has to give back under the request's own id.
// Without it the retry of a call that lost its reply would get its lock, and the ledger
// would then give that very lock back under it.
func (c *Chain) takeDebt(ctx context.Context, r *request, deadline time.Time) *tierlock.Error {
	for {
		e, busy := c.gw.ledger.take(owner{r.key, r.id, r.entry})
		if busy == nil {
			r.debt = e
			return nil
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-busy:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return r.because(tierlock.ReasonCanceled, context.Cause(ctx))
		case <-timer.C:
			return r.because(tierlock.ReasonAttempt, nil)
		}
	}
}

// payDebt gives the ledger back what the request took over and did not settle by a grant.
func (c *Chain) payDebt(r *request) {
	if r.debt != nil {
		c.gw.ledger.add(r.debt)
		r.debt = nil
	}
}
