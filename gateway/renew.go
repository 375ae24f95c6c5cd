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
// taken [WithoutRenew]. ErrLost tells that the lock is no longer held.
func (l *Lock) Renew(ctx context.Context, ttl time.Duration) error {
	if l == nil {
		return tierlock.ErrLost
	}
	if err := l.chain.policy.checkTTL(ttl); err != nil {
		return err
	}
	if l.isOver() {
		return l.failed("renew", tierlock.ReasonLost, l.endedBy())
	}
	hold := l.hold()
	hold.TTL = ttl
	pass := l.counted()
	answers, cause := l.by.Renew(tierlock.Until(ctx, time.Now().Add(l.chain.policy.Attempt)), []tierlock.Hold{hold})
	pass.Exit(cause)
	var ans tierlock.Answer
	if len(answers) == 1 {
		ans = answers[0]
	}
	if err := l.renewed(ans, cause); err != nil {
		return err
	}
	l.chain.gw.watchdog.watch(l)
	return nil
}

// renewed takes the answer of one renewal in, the holder's or the watchdog's. A missing
// answer changes nothing: the lock ends when it would have.
func (l *Lock) renewed(ans tierlock.Answer, cause error) error {
	var err error
	switch ans.Status {
	case tierlock.Mine, tierlock.Granted:
		if !l.extend(ans.Until) {
			return l.failed("renew", tierlock.ReasonLost, l.endedBy()) // given back meanwhile
		}
	case tierlock.Gone, tierlock.Held, tierlock.Released:
		err = l.failed("renew", tierlock.ReasonLost, errGone)
		l.lose(audit.Lost, errGone)
	default:
		err = l.failed("renew", faultReason(cause), cause)
	}
	tell(l.chain.gw.hooks.Renewed, RenewInfo{Grant: l.Grant(), Err: err})
	return err
}
