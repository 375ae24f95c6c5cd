package daemon

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

// switchHealth is what an instance makes of the switch document.
type switchHealth struct {
	Switch     uint64       `json:"switch_version"`            // in force; 0: none was seen yet
	PolicyHash string       `json:"policy_hash"`               // of the policies in force
	Instance   string       `json:"instance,omitempty"`        // its name in events, and in canaries
	Withheld   uint64       `json:"switch_withheld,omitempty"` // published for a canary without it
	Alarm      *alarmHealth `json:"switch_alarm,omitempty"`    // nil: the published document is in force
}

// alarmHealth is why the last answer of the source is not in force.
type alarmHealth struct {
	Why     switchcfg.Why `json:"why"`
	Version uint64        `json:"refused_version,omitempty"`
	Error   string        `json:"error"`
	Since   time.Time     `json:"since"`
}

// rehearsalHealth is a dry run and what it has counted.
type rehearsalHealth struct {
	Mode  string           `json:"mode"`
	Until time.Time        `json:"until"`
	By    string           `json:"by"`
	Calls []rehearsedCalls `json:"calls,omitempty"`
}

type rehearsedCalls struct {
	Would string `json:"would"` // tier, or refused
	Got   string `json:"got"`   // outcome
	Count int64  `json:"count"`
}

// lines tell what is not as it should be.
func (h *switchHealth) lines() (lines []string) {
	if h.Withheld > 0 {
		lines = append(lines, fmt.Sprintf("  version %d is for a canary without it", h.Withheld))
	}
	if a := h.Alarm; a != nil {
		lines = append(lines, fmt.Sprintf("  ALARM since %s: %s: %s", a.Since.Format(time.TimeOnly), a.Why, a.Error))
	}
	return lines
}

func (r *rehearsalHealth) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dry run of %s until %s by %s", r.Mode, r.Until.Format(time.TimeOnly), r.By)
	for _, c := range r.Calls {
		fmt.Fprintf(&b, "; %d would have been %s, got %s", c.Count, c.Would, c.Got)
	}
	return b.String()
}

func rehearsalOf(r *gateway.Rehearsal) *rehearsalHealth {
	if r == nil {
		return nil
	}
	h := &rehearsalHealth{Mode: r.Order.Mode.String(), Until: r.Order.Until.Round(0), By: r.Order.By}
	for _, c := range r.Calls {
		would := tierRefused
		if c.Would != 0 {
			would = c.Would.String()
		}
		h.Calls = append(h.Calls, rehearsedCalls{would, c.Got.String(), c.Count})
	}
	return h
}

// following is the last report of whoever follows the switch document.
type following struct {
	mu     sync.Mutex
	report switchcfg.Report // guarded by mu
	since  time.Time        // of its fault; guarded by mu
}

// hear implements gateway.Hooks.Reported.
func (f *following) hear(r switchcfg.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Edge {
		f.since = time.Now()
	}
	f.report = r
}

// health is how following stands, beside what the gateway says of itself.
func (f *following) health(instance string, s *gateway.Status) switchHealth {
	h := switchHealth{Switch: s.Applied, PolicyHash: s.PolicyHash, Instance: instance}
	f.mu.Lock()
	defer f.mu.Unlock()
	h.Withheld = f.report.Withheld
	if fault := f.report.Fault; fault != nil {
		h.Alarm = &alarmHealth{Why: fault.Why, Version: fault.Version, Error: fault.Err.Error(), Since: f.since.Round(0)}
	}
	return h
}

// orderOf is the order in force on a chain; nil: none.
func orderOf(o degrade.Order) *orderHealth {
	if o.Mode == 0 {
		return nil
	}
	return &orderHealth{Mode: o.Mode.String(), Until: o.Until.Round(0), Reason: o.Reason, By: o.By}
}
