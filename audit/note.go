package audit

import (
	"encoding/json"
	"time"

	"github.com/tierlock/tierlock"
)

// note is an event that nobody waits for, while it waits in memory: what is written of a
// hold, in little more than half of the room. Each byte of it is copied by the caller and
// read by the writer on another processor.
type note struct {
	kind       Type
	chain      string
	key        tierlock.Key
	id         tierlock.RequestID
	holder     string
	tier       tierlock.Tier
	exclusive  bool
	store      string
	token      tierlock.Token
	grantedAt  time.Time
	endedAt    time.Time
	ttl        time.Duration
	maxHold    time.Duration
	clockError time.Duration
	how        How
	outcome    Work
	reason     tierlock.Reason
	order      Switch
	business   Business
	extra      map[string]json.RawMessage
}

// of takes in what is written of ev.
func (n *note) of(ev *Event) {
	n.kind, n.chain, n.key, n.id, n.holder = ev.Type, ev.Chain, ev.Key, ev.ID, ev.Holder
	n.tier, n.exclusive, n.store, n.token = ev.Tier, ev.Exclusive, ev.Store, ev.Token
	n.grantedAt, n.endedAt, n.ttl, n.maxHold, n.clockError = ev.GrantedAt, ev.EndedAt, ev.TTL, ev.MaxHold, ev.ClockError
	n.how, n.outcome, n.reason = ev.How, ev.Outcome, ev.Reason
	n.order, n.business, n.extra = ev.Switch, ev.Business, ev.Extra
}

// fill makes ev, which has no other fields than these, the event that was noted.
func (n *note) fill(ev *Event) {
	ev.Type, ev.Chain, ev.Key, ev.ID, ev.Holder = n.kind, n.chain, n.key, n.id, n.holder
	ev.Tier, ev.Exclusive, ev.Store, ev.Token = n.tier, n.exclusive, n.store, n.token
	ev.GrantedAt, ev.EndedAt, ev.TTL, ev.MaxHold, ev.ClockError = n.grantedAt, n.endedAt, n.ttl, n.maxHold, n.clockError
	ev.How, ev.Outcome, ev.Reason = n.how, n.outcome, n.reason
	ev.Switch, ev.Business, ev.Extra = n.order, n.business, n.extra
}
