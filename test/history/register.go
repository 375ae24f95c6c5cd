package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// registerState is a register whose every access names a token: the highest one that has
// entered is its mark, and lower ones are refused.
type registerState struct {
	value int64
	mark  uint64
}

// registerModel is for the reads and writes of one register. It must hold whatever happens
// to the lock: the guard, not the lock, is what keeps the register.
func registerModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{registerState{}} },
		Step: func(state, input, _ any) []any {
			s, op := state.(registerState), input.(Op)
			enters := op.Token >= s.mark
			after := registerState{value: s.value, mark: max(s.mark, op.Token)}
			if op.Kind == Write {
				after.value = op.Value
			}
			switch op.Outcome {
			case Accepted:
				if enters && (op.Kind == Write || op.Value == s.value) {
					return []any{after}
				}
			case Refused:
				if !enters {
					return []any{s}
				}
			default: // its process ended: committed or not
				if enters {
					return []any{s, after}
				}
				return []any{s}
			}
			return nil
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(Op)) },
	}
	return m.ToModel()
}

// Registers finds reads and writes that no fenced register can have answered so.
func Registers(h *History, patience time.Duration) (faults []string) {
	for _, key := range h.keys() {
		var ops []porcupine.Operation
		for _, op := range h.of(key, Read, Write) {
			end := op.Return
			if end == 0 {
				end = never
			}
			ops = append(ops, porcupine.Operation{ClientId: op.Process*100 + op.Client, Input: op, Call: op.Call, Return: end})
		}
		switch porcupine.CheckOperationsTimeout(registerModel(), ops, patience) {
		case porcupine.Illegal:
			faults = append(faults, fmt.Sprintf("%s: no fenced register can have answered so (%d operations)", key, len(ops)))
		case porcupine.Unknown:
			faults = append(faults, fmt.Sprintf("%s: %d operations were not judged within %v", key, len(ops), patience))
		}
	}
	return faults
}

// Updates finds increments that were accepted and are not in the register, or are there
// though they were refused. A write whose process ended under it may be either.
func Updates(h *History) (faults []string) {
	for _, key := range h.keys() {
		var accepted, unknown int64
		for _, op := range h.of(key, Write) {
			switch op.Outcome {
			case Accepted:
				accepted++
			case "":
				unknown++
			}
		}
		if got := h.Last[key]; got < accepted || got > accepted+unknown {
			faults = append(faults, fmt.Sprintf("%s: the register rose by %d; %d increments were accepted, of %d nobody knows", key, got, accepted, unknown))
		}
	}
	return faults
}
