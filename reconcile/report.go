package reconcile

import (
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
	Causes   map[Cause]int  `json:"causes,omitempty"` // findings by their gravest cause
	States   map[State]int  `json:"states,omitempty"` // overlap findings by state
	Repairs  map[Result]int `json:"repairs,omitempty"`
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

	Findings   int       `json:"findings"` // overlaps that stand: not superseded, not withdrawn
	Certain    int       `json:"certain"`
	Possible   int       `json:"possible"`
	Gaps       int       `json:"gaps"`               // gap and silent findings that stand
	Repaired   int       `json:"repaired"`           // repairs applied by this job
	Failed     int       `json:"failed"`             // checks and repairs that failed
	Waiting    int       `json:"waiting"`            // findings whose check or repair is due
	Partitions int       `json:"partitions"`         // assigned now
	OpenHolds  int       `json:"open_holds"`         // not yet judged
	Stopped    bool      `json:"stopped"`            // repairs stopped: Caps.FailureRatio or Caps.Total
	Watermark  time.Time `json:"watermark,omitzero"` // lowest of all partitions
}
