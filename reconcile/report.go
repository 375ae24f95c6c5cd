package reconcile

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// Report is what a job has seen since it began, for people and for CI.
type Report struct {
	At       time.Time `json:"at"`
	From     time.Time `json:"from,omitzero"` // first grant seen
	To       time.Time `json:"to,omitzero"`   // all holds that were over by then are judged
	Complete bool      `json:"complete"`      // nothing is known to be missing
	Missing  []Gap     `json:"missing,omitempty"`
	// Blind are the tiers that Rule.Ignore leaves out: overlaps with them are not found.
	Blind  []tierlock.Tier `json:"blind,omitempty"`
	DryRun bool            `json:"dry_run"`

	Stats
	Causes   map[Cause]int  `json:"causes,omitempty"`  // findings by their gravest cause
	States   map[State]int  `json:"states,omitempty"`  // overlap findings by state
	Repairs  map[Result]int `json:"repairs,omitempty"` // checks and repairs by result
	Switches []SwitchPeriod `json:"switches,omitempty"`
}

// SwitchPeriod is one order of an operator as the grants under it tell it.
type SwitchPeriod struct {
	Chain   string    `json:"chain"`
	Version uint64    `json:"version"`
	Reason  string    `json:"reason"`
	From    time.Time `json:"from"` // first grant under it
	To      time.Time `json:"to"`   // last
	Grants  int       `json:"grants"`
	Bypass  int       `json:"bypass"`
}

// Stats are a job's counters since it began, for metrics. A partition that is read again
// counts its records again, its findings once.
type Stats struct {
	Records    uint64 `json:"records"`
	Holds      uint64 `json:"holds"`      // judged, of any tier
	Duplicates uint64 `json:"duplicates"` // events that had been seen
	Malformed  uint64 `json:"malformed"`  // records that are no event
	Late       uint64 `json:"late"`       // events that came after their time had been judged
	Rereads    uint64 `json:"rereads"`    // of a partition, because of one

	Findings      int       `json:"findings"` // overlaps that stand: not superseded, not withdrawn
	Certain       int       `json:"certain"`
	Possible      int       `json:"possible"`
	Provisional   int       `json:"provisional"`        // of both: what is missing may still change them
	Gaps          int       `json:"gaps"`               // gap and silent findings that stand
	Repaired      int       `json:"repaired"`           // repairs applied by this job
	Failed        int       `json:"failed"`             // checks and repairs that failed
	Unchanged     int       `json:"unchanged"`          // repairs that changed nothing
	HookTimeouts  uint64    `json:"hook_timeouts"`      // calls of hooks that did not answer within Config.HookTimeout
	StoreTimeouts uint64    `json:"store_timeouts"`     // calls of stores that did not answer within Config.StoreTimeout
	Waiting       int       `json:"waiting"`            // findings whose check or repair is due
	Pending       int       `json:"pending"`            // repairs that wait for people's yes, of all members; with Apply and a [Pender]
	Partitions    int       `json:"partitions"`         // assigned now
	OpenHolds     int       `json:"open_holds"`         // not yet judged
	Stopped       bool      `json:"stopped"`            // repairs stopped: Caps.FailureRatio or Caps.Total
	Watermark     time.Time `json:"watermark,omitzero"` // lowest of all partitions
}

func compareGaps(a, b Gap) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Producer, b.Producer), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From))
}

// WriteText writes the report for people, one fact a line.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	if !r.From.IsZero() {
		line("period", "%s to %s", r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339))
	}
	line("records", "%d (%d repeated, %d late, %d malformed), %d holds judged", r.Records, r.Duplicates, r.Late, r.Malformed, r.Holds)
	line("overlaps", "%d: %d certain, %d possible", r.Findings, r.Certain, r.Possible)
	if r.Provisional > 0 {
		line("", "%6d  provisional: what is missing may still change them", r.Provisional)
	}
	for _, c := range causes {
		if n := r.Causes[c]; n > 0 {
			line("", "%6d  %s", n, c)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(r.States)) {
		line("state", "%6d  %s", r.States[s], s)
	}
	mode := "applied"
	if r.DryRun {
		mode = "dry run"
	}
	line("repairs", "%s, %d applied, %d failed, %d findings waiting", mode, r.Repaired, r.Failed, r.Waiting)
	if !r.DryRun && r.Waiting > 0 {
		line("", "what waits is done later, once its chain has been quiet, its lock is free and the caps allow")
	}
	for _, res := range slices.Sorted(maps.Keys(r.Repairs)) {
		line("result", "%6d  %s", r.Repairs[res], res)
	}
	if r.Stopped {
		line("", "stopped by a cap: look at the failed ones, then start again")
	}
	for _, p := range r.Switches {
		line("switch", "%s version %d, %s to %s, %d grants, %d bypassed: %s", p.Chain, p.Version,
			p.From.UTC().Format(time.RFC3339), p.To.UTC().Format(time.RFC3339), p.Grants, p.Bypass, p.Reason)
	}
	r.writeCompleteness(line)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeCompleteness(line func(name, format string, args ...any)) {
	if r.Complete && r.Records == 0 {
		line("complete", "nothing was read")
		return
	}
	if r.Complete {
		line("complete", "yes: every event of every producer was seen")
		return
	}
	line("complete", "no")
	for _, t := range r.Blind {
		line("blind", "holds of tier %s are left out by the rule", t)
	}
	for _, g := range r.Missing {
		line("missing", "%s partition %d %s from %d to %d, count %d: %s", g.At.UTC().Format(time.RFC3339), g.Partition, g.Producer, g.From, g.To, g.Count, g.Cause)
	}
}
