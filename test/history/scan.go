package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const shared = "shared"

// Overlaps finds shared holds of one key that met: one had not ended when the other was in
// hand. It is for runs in which the store keeps its memory and its clock.
func Overlaps(h *History) (faults []string) {
	for _, key := range h.keys() {
		holds := slices.DeleteFunc(h.of(key, Hold), func(op Op) bool { return op.Tier != shared })
		slices.SortFunc(holds, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
		var last Op // of those so far, the one that ended last
		for _, op := range holds {
			if last.Holder != "" && op.Call < last.Return {
				faults = append(faults, fmt.Sprintf("%s: %s was in hand %v before %s had to end",
					key, op.Holder, time.Duration(last.Return-op.Call), last.Holder))
			}
			if op.Return > last.Return {
				last = op
			}
		}
	}
	return faults
}

// Tokens finds two grants of one key with the same token, and one that came after another
// and has a lower token. Whether two grants that were asked for at once came one way or
// the other nobody can tell.
func Tokens(h *History) (faults []string) {
	for _, key := range h.keys() {
		grants := slices.DeleteFunc(h.of(key, Acquire), func(op Op) bool { return op.Outcome != Granted || op.Token == 0 })
		byReturn := slices.SortedFunc(slices.Values(grants), func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
		holders := map[uint64]string{}
		before, highest := 0, Op{}
		for _, op := range grants { // by call
			if other, ok := holders[op.Token]; ok && other != op.Holder {
				faults = append(faults, fmt.Sprintf("%s: token %d was given to %s and to %s", key, op.Token, other, op.Holder))
			}
			holders[op.Token] = op.Holder
			for ; before < len(byReturn) && byReturn[before].Return < op.Call; before++ {
				if byReturn[before].Token > highest.Token {
					highest = byReturn[before]
				}
			}
			if op.Token < highest.Token {
				faults = append(faults, fmt.Sprintf("%s: token %d of %s came after token %d of %s", key, op.Token, op.Holder, highest.Token, highest.Holder))
			}
		}
	}
	return faults
}

// Orphans finds locks that stood in the store for nobody: their holder was never granted
// them, or had given them back grace earlier. A holder whose process was killed holds
// until his ttl is over.
func Orphans(h *History, grace time.Duration) (faults []string) {
	for _, stand := range h.Stands {
		held := func(op Op) bool {
			if op.Key != stand.Key || op.Holder != stand.Holder {
				return false
			}
			switch {
			case op.Kind == Hold:
				return op.Call <= stand.At+int64(h.Attempt) && stand.At <= op.Return+int64(grace)
			case op.Kind == Acquire && op.Return == 0: // killed while it asked
				return stand.At <= notAfter(op, h.Attempt)+op.TTL
			case op.Kind == Release && op.Return == 0: // or while it gave it back
				return stand.At <= op.Call+op.TTL
			case op.Kind == Acquire && op.Outcome == Granted && !h.ended(op):
				return stand.At <= op.Return+op.TTL
			}
			return false
		}
		if !slices.ContainsFunc(h.Ops, held) {
			faults = append(faults, fmt.Sprintf("%s stands in the store for %s, who is nobody", stand.Key, stand.Holder))
		}
	}
	return faults
}

// ended tells whether the end of a grant was recorded; else its process was killed.
func (h *History) ended(grant Op) bool {
	return slices.ContainsFunc(h.Ops, func(op Op) bool {
		return op.Kind == Hold && op.Key == grant.Key && op.Holder == grant.Holder
	})
}

// Late finds acquires that were answered later than their attempt and slack, the time
// taken off in which their process did not get to run.
func Late(h *History, slack time.Duration) (faults []string) {
	for _, op := range h.of("", Acquire) {
		if took := time.Duration(op.Return - op.Call - op.Stalled); op.Return != 0 && took > h.Attempt+slack {
			faults = append(faults, fmt.Sprintf("%s: answered %s after %v, want %v (process %d stood still for %v beside)",
				op.Key, cmp.Or(op.Outcome, Outcome(op.Reason)), took, h.Attempt+slack, op.Process, time.Duration(op.Stalled)))
		}
	}
	return faults
}
