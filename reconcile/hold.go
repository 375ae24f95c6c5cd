package reconcile

import (
	"slices"
	"time"

	"github.com/tierlock/tierlock/audit"
)

// endless is the longest a hold may last that tells neither ttl nor max_hold: the longest
// ttl that a chain may have.
const endless = 10 * time.Minute

// hold is an interval while its events come in, in any order.
type hold struct {
	Interval
	maxHold  time.Duration
	acquired bool
	offset   int64 // of its first record
}

// take merges one event; the order in which they come does not matter.
func (h *hold) take(ev *audit.Event) {
	if ev.Type == audit.TypeAcquire || !h.acquired {
		h.Event, h.Chain, h.Tier, h.Store, h.Token = ev.EventID(), ev.Chain, ev.Tier, ev.Store, ev.Token
		h.Producer, h.Epoch = ev.Producer, ev.Epoch
	}
	h.TTL, h.maxHold = max(h.TTL, ev.TTL), max(h.maxHold, ev.MaxHold)
	if ev.ClockError > 0 {
		h.Error = max(h.Error, ev.ClockError)
	}
	if ev.Switch.Version != 0 {
		h.Switch = ev.Switch
	}
	if !ev.Business.IsZero() {
		h.Business = ev.Business
	}
	switch ev.Type {
	case audit.TypeAcquire:
		h.acquired, h.AcquireSeq = true, ev.Seq
		return
	case audit.TypeOptimistic: // written when its work had ended: one event for both ends
		h.acquired = true
	}
	if ev.EndedAt.After(h.EndedAt) { // the last end counts: an expiry may be followed by an unlock
		h.EndedAt, h.How, h.Outcome, h.EndSeq = ev.EndedAt, ev.How, ev.Outcome, ev.Seq
	}
}

// settle sets the latest possible end. gone tells until when an epoch that is over gave
// signs of life.
func (h *hold) settle(gone func(producer string, epoch uint64) (time.Time, bool)) {
	switch {
	case h.EndedAt.IsZero():
		h.Latest = h.deadline(gone)
	case h.How == audit.Expired || h.How == audit.Lost:
		// The lock is over; whether its holder has noticed is not known.
		h.Latest = h.EndedAt.Add(h.TTL)
	default:
		h.Latest = h.EndedAt
	}
	if h.Latest.Before(h.GrantedAt) { // a clock that was stepped back in hand
		h.Latest = h.GrantedAt
	}
}

func (h *hold) deadline(gone func(producer string, epoch uint64) (time.Time, bool)) time.Time {
	if h.TTL == 0 && h.maxHold == 0 {
		return h.GrantedAt.Add(endless)
	}
	end := h.GrantedAt.Add(h.TTL)
	if h.maxHold <= h.TTL {
		return end
	}
	if sign, over := gone(h.Producer, h.Epoch); over { // nobody renewed after this
		if last := sign.Add(h.TTL); last.After(end) {
			end = last
		}
		if most := h.GrantedAt.Add(h.maxHold); most.Before(end) {
			end = most
		}
		return end
	}
	return h.GrantedAt.Add(h.maxHold)
}

// pairUp joins an acquire that has no end to an end that has no acquire, of one holder:
// another process, which had attached to the lock, gave it back and told its own times.
func pairUp(list []*hold) []*hold {
	slices.SortFunc(list, func(a, b *hold) int { return before(&a.Interval, &b.Interval) })
	var out []*hold
	for _, h := range list {
		i := -1
		if !h.acquired {
			i = slices.IndexFunc(out, func(o *hold) bool {
				return o.Holder == h.Holder && o.acquired && o.EndedAt.IsZero() && !h.EndedAt.Before(o.GrantedAt)
			})
		}
		if i < 0 {
			out = append(out, h)
			continue
		}
		o := out[i]
		o.EndedAt, o.How, o.Outcome = h.EndedAt, h.How, h.Outcome
		o.Error, o.offset = max(o.Error, h.Error), min(o.offset, h.offset)
	}
	return out
}
