package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of a lock with a ttl. A step of a model knows no time, so each operation
// carries its own: from its call and its return the model works out the earliest and the
// latest moment at which the store can have freed the key. A grant is legal when the key
// may have been free by its return, "held" when it may still have been held at its call.
// So no latency can raise a false alarm, and an overlap shorter than the operations
// themselves is not seen here: that is the scan's.
//
// An acquire without an answer has happened or not: the model goes on with both. It can
// have happened only before its not-after, and since its caller gave up, it may be given
// back at any time. A renewal or a release without an answer may happen at any later time;
// both only weaken what is known of the present hold, so the model need not branch.
type lockState struct {
	holder string // empty: free
	early  int64  // the key may be free by itself from then on
	late   int64  // and is by then
}

const never = math.MaxInt64

// lockModel is for the operations of one key.
func lockModel(attempt time.Duration) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{lockState{}} },
		Step: func(state, input, _ any) []any {
			next := stepLock(state.(lockState), input.(Op), attempt)
			out := make([]any, len(next))
			for i, s := range next {
				out[i] = s
			}
			return out
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(Op)) },
		DescribeState: func(state any) string {
			if s := state.(lockState); s.holder != "" {
				return s.holder
			}
			return "free"
		},
	}
	return m.ToModel()
}

// notAfter is until when an acquire can take effect: the store refuses it later.
func notAfter(op Op, attempt time.Duration) int64 { return op.Call + int64(attempt) + margin }

func stepLock(s lockState, op Op, attempt time.Duration) []lockState {
	mine := s.holder == op.Holder && s.holder != ""
	mayBeFree := func(at int64) bool { return s.holder == "" || at >= s.early }
	switch {
	case op.Kind == Acquire && op.Outcome == Granted:
		if mine || mayBeFree(op.Return) {
			return []lockState{{op.Holder, op.Call + op.TTL - margin, op.Return + op.TTL + margin}}
		}
	case op.Kind == Acquire && op.Outcome == Held:
		if s.holder != "" && !mine && op.Call <= s.late {
			return []lockState{s}
		}
	case op.Kind == Acquire: // no answer
		end := notAfter(op, attempt)
		if mayBeFree(end) {
			return []lockState{s, {op.Holder, op.Call, end + op.TTL + margin}}
		}
		return []lockState{s}
	case op.Kind == Renew && op.Outcome == Kept:
		if mine && op.Call <= s.late {
			return []lockState{{s.holder, max(s.early, op.Call+op.TTL-margin), max(s.late, op.Return+op.TTL+margin)}}
		}
	case op.Kind == Renew && op.Outcome == Lost:
		switch {
		case !mine:
			return []lockState{s}
		case mayBeFree(op.Return):
			return []lockState{{}}
		}
	case op.Kind == Renew: // no answer
		if mine {
			s.late = never
		}
		return []lockState{s}
	case op.Kind == Release && op.Outcome == Released:
		if mine && op.Call <= s.late {
			return []lockState{{}}
		}
	case op.Kind == Release: // no answer, or too late to matter
		if mine {
			s.early = min(s.early, op.Call)
		}
		return []lockState{s}
	}
	return nil
}

// Locks finds histories that no lock with a ttl can have produced, key by key. It is for
// runs in which the store keeps its memory and its clock. patience bounds the search for
// each key; one that is not done by then is a fault too.
func Locks(h *History, patience time.Duration) (faults []string) {
	for _, key := range h.keys() {
		var ops []porcupine.Operation
		for _, op := range h.of(key, Acquire, Renew, Release) {
			if op.Outcome == Unsent {
				continue
			}
			end := op.Return
			switch {
			case op.Kind == Acquire && op.Outcome == "":
				end = max(end, notAfter(op, h.Attempt))
			case end == 0:
				end = op.Call + int64(h.Attempt) + margin // its effect lasts in the model: see above
			}
			ops = append(ops, porcupine.Operation{ClientId: op.Process*100 + op.Client, Input: op, Call: op.Call, Return: end})
		}
		switch porcupine.CheckOperationsTimeout(lockModel(h.Attempt), ops, patience) {
		case porcupine.Illegal:
			faults = append(faults, fmt.Sprintf("%s: no lock with a ttl can have answered so (%d operations)", key, len(ops)))
		case porcupine.Unknown:
			faults = append(faults, fmt.Sprintf("%s: %d operations were not judged within %v", key, len(ops), patience))
		}
	}
	return faults
}

func describe(op Op) string {
	s := fmt.Sprintf("%s %s: %s", op.Kind, op.Holder, op.Outcome)
	if op.Token != 0 {
		s += fmt.Sprintf(" token %d", op.Token)
	}
	if op.Kind == Read || op.Kind == Write {
		s += fmt.Sprintf(" value %d", op.Value)
	}
	return s
}
