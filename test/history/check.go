package history

import (
	"fmt"
	"time"
)

// The measures of the checks that need one.
const (
	patience = 2 * time.Minute       // of the search for an order, each key
	grace    = time.Second           // for a release that was not answered at once
	slack    = 20 * time.Millisecond // of an answer
)

// Checks are all there are, by name.
var Checks = map[string]func(*History) []string{
	"locks":     func(h *History) []string { return Locks(h, patience) },
	"registers": func(h *History) []string { return Registers(h, patience) },
	"updates":   Updates,
	"overlaps":  Overlaps,
	"tokens":    Tokens,
	"orphans":   func(h *History) []string { return Orphans(h, grace) },
	"late":      func(h *History) []string { return Late(h, slack) },
}

// Always hold, whatever happens to the store: what the guard and the client promise.
var Always = []string{"registers", "updates", "orphans", "late"}

// WhileItRemembers hold as well while the store keeps its memory.
var WhileItRemembers = append([]string{"locks", "overlaps", "tokens"}, Always...)

// Judge runs the named checks and returns what they found, each with the check's name.
func Judge(h *History, names ...string) (faults []string) {
	for _, name := range names {
		check, ok := Checks[name]
		if !ok {
			return []string{fmt.Sprintf("there is no check %q", name)}
		}
		for _, fault := range check(h) {
			faults = append(faults, name+": "+fault)
		}
	}
	return faults
}
