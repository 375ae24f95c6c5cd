package gateway

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Renew extends the lock to ttl from now: 1 s to 10 min, whole milliseconds. It never
// shortens, never moves the hard end of a local lock or max_hold, and never revives a lock
// that is over. The watchdog does it unasked, with the lock's own ttl, unless the lock was
// taken [WithoutRenew]. ErrLost tells that the lock is no longer held; ErrInvalid, that
// ttl breaks a rule; any other error, that there was no answer within the policy's
// attempt, and that the lock ends when it would have.
func (l *Lock) Renew(ctx context.Context, ttl time.Duration) error {
	if l == nil {
		return tierlock.ErrLost
	}
	if err := l.chain.policy.checkTTL(ttl); err != nil {
		return err
	}
	now := time.Now()
	deadline := now.Add(l.chain.policy.Attempt)
	if !l.ask(deadline.Add(ttl)) {
		return l.failed("renew", tierlock.ReasonLost, l.endedBy())
	}
	hold := l.whole()
	hold.TTL = ttl
	pass := l.counted(now)
	answers, cause := l.by.Renew(tierlock.Until(ctx, deadline), []tierlock.Hold{hold})
	pass.Exit(cause)
	var ans tierlock.Answer
	if len(answers) == 1 {
		ans = answers[0]
	}
	if err := l.renewed(ans, cause); err != nil {
		return err
	}
	l.chain.gw.watchdog.watch(l.lease, time.Now())
	return nil
}

// ask notes how far a renewal may move the end in the store, its answer lost or not. It
// tells whether the lock is live.
func (h *lease) ask(end time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.how != "" {
		return false
	}
	h.asked = max(h.asked, end.Sub(h.grant.AcquiredAt))
	return true
}

// renewed takes the answer of one renewal in, the holder's or the watchdog's. A missing
// answer changes nothing: the lock ends when it would have.
func (h *lease) renewed(ans tierlock.Answer, cause error) error {
	var err error
	switch ans.Status {
	case tierlock.Mine, tierlock.Granted:
		if !h.extend(ans.Until) {
			return h.failed("renew", tierlock.ReasonLost, h.endedBy()) // given back meanwhile
		}
	case tierlock.Gone, tierlock.Held, tierlock.Released:
		if err = h.failed("renew", tierlock.ReasonLost, errGone); !h.lose(audit.Lost, errGone) {
			return err // given back meanwhile: no renewal has failed
		}
	default:
		err = h.failed("renew", faultReason(cause), cause)
	}
	tell(h.chain.gw, "renewed", h.chain.gw.hooks.Renewed, RenewInfo{Grant: h.now(), Err: err})
	return err
}
