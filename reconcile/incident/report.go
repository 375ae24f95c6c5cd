package incident

import (
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// Report is what one period held. Times are UTC; lists are in a fixed order, so that the
// same events make the same report.
type Report struct {
	From   time.Time `json:"from"` // the period: From ≤ t < To
	To     time.Time `json:"to"`
	At     time.Time `json:"at"`     // when it was made
	Author string    `json:"author"` // who made it
	// FourEyes asks for a reviewer who is somebody else than the author.
	FourEyes bool `json:"four_eyes"`

	Total       Total          `json:"total"`
	Requests    []Requests     `json:"requests"`   // by chain and tier
	Refused     []Refused      `json:"refused"`    // by chain and answer
	Optimistic  []Optimistic   `json:"optimistic"` // by chain and reason
	Orders      []Order        `json:"orders"`     // of operators, in force in the period
	Degraded    []Stretch      `json:"degraded"`   // times in which a process reported a tier below shared
	Health      []Health       `json:"health"`     // changes of chains' health, and why
	Conflicts   []Conflict     `json:"conflicts"`
	Causes      map[string]int `json:"causes"`  // standing conflicts by their gravest cause
	Records     []Record       `json:"records"` // business records touched
	Checks      []Check        `json:"checks"`  // by business type
	Amounts     []Amount       `json:"amounts"` // by business type: their units differ
	Certificate Certificate    `json:"certificate"`
}

// Total sums a report up.
type Total struct {
	Bypassed   int `json:"bypassed"`   // grants under bypass
	Local      int `json:"local"`      // grants of the process alone
	Optimistic int `json:"optimistic"` // answers without a lock
	Shared     int `json:"shared"`     // grants of the store
	Refused    int `json:"refused"`    // as far as processes told, see [Refused]

	Conflicts int `json:"conflicts"` // that stand
	Certain   int `json:"certain"`
	Possible  int `json:"possible"`
	Open      int `json:"open"` // conflicts that nobody has cleared, and records that are wrong, unsettled or could not be checked

	Records int `json:"records"` // touched; Report.Records lists them up to Config.MaxRecords
	Checked int `json:"checked"`
	Wrong   int `json:"wrong"` // records in which a check finds something wrong now
}

// Requests are the grants of one chain and tier in the period, by how they ended.
type Requests struct {
	Chain      string        `json:"chain"`
	Tier       tierlock.Tier `json:"tier"`
	Granted    int           `json:"granted"`
	Released   int           `json:"released"`
	Expired    int           `json:"expired"`
	Lost       int           `json:"lost"`
	Forced     int           `json:"forced"`
	Untold     int           `json:"untold"` // no end event
	Committed  int           `json:"committed"`
	RolledBack int           `json:"rolled_back"`
}

// Refused are requests that got no grant, as the heartbeats count them: between the last
// heartbeat before the period and the first after it.
type Refused struct {
	Chain  string `json:"chain"`
	Answer string `json:"answer"` // outcome and reason: "system_error down"
	Count  int    `json:"count"`
}

// Optimistic are answers without a lock, by how the caller's work ended.
type Optimistic struct {
	Chain      string          `json:"chain"`
	Reason     tierlock.Reason `json:"reason"`
	Answers    int             `json:"answers"`
	Committed  int             `json:"committed"`
	RolledBack int             `json:"rolled_back"`
	Untold     int             `json:"untold"`
}

// Order is an operator's order. Chain and Reason are told by grants alone; heartbeats tell
// the version that a process had in force.
type Order struct {
	Version    uint64    `json:"version"`
	Chain      string    `json:"chain,omitempty"` // empty: heartbeats alone tell of it
	Reason     string    `json:"reason,omitempty"`
	First      time.Time `json:"first"` // first and last grant or heartbeat under it in the period
	Last       time.Time `json:"last"`
	Grants     int       `json:"grants"`
	Bypass     int       `json:"bypass"`
	Optimistic int       `json:"optimistic"`
	Processes  int       `json:"processes"` // that told of it
}

// Stretch is a time in which one process reported that new requests of a chain were served
// below shared, from heartbeat to heartbeat.
type Stretch struct {
	Chain    string    `json:"chain"`
	Producer string    `json:"producer"`
	Tier     string    `json:"tier"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
}

// Health is one change of a chain's health in one process.
type Health struct {
	At       time.Time       `json:"at"`
	Chain    string          `json:"chain"`
	Producer string          `json:"producer"`
	Target   string          `json:"target,omitempty"` // part of the store
	From     string          `json:"from"`
	To       string          `json:"to"`
	Reason   tierlock.Reason `json:"reason,omitempty"`
	Observed bool            `json:"observed,omitempty"` // the chain only observes: nothing was served otherwise
}

// Conflict is one group of holds of one key that overlapped.
type Conflict struct {
	ID      string          `json:"id"`
	State   reconcile.State `json:"state"`
	Where   string          `json:"where"` // found and stored, found only, stored only
	Open    bool            `json:"open"`
	Chain   string          `json:"chain"`
	Key     tierlock.Key    `json:"key"`
	Certain bool            `json:"certain"`
	// Provisional: events of its time are missing, so that it may still change; see reconcile.Finding.
	Provisional  bool               `json:"provisional,omitempty"`
	Awaited      []string           `json:"awaited,omitempty"` // the producers that it waits for
	Causes       []reconcile.Cause  `json:"causes"`
	Part         int                `json:"part,omitempty"` // of a group beyond the rule's size
	Holds        int                `json:"holds"`
	Pairs        int                `json:"pairs"`
	CertainPairs int                `json:"certain_pairs"`
	AtRiskPairs  int                `json:"at_risk_pairs,omitempty"` // of which neither hold's work was rolled back
	Depth        int                `json:"depth"`                   // most holders inside at once
	From         time.Time          `json:"from"`
	To           time.Time          `json:"to"`
	Business     []string           `json:"business"` // "type:id" of the records in it
	Repairs      []reconcile.Repair `json:"repairs"`
	// Members are the first holds of it, at most 50; Holds counts all.
	Members []reconcile.Interval `json:"members"`
}

// Where a conflict is known from.
const (
	Both   = "found and stored"
	Found  = "found only"  // the job has not stored it, or has no database
	Stored = "stored only" // its events are gone from Kafka, or tell otherwise now
)

// Verdict is what a check says of a record.
type Verdict string

// The verdicts.
const (
	Clean     Verdict = "clean"
	Wrong     Verdict = "wrong"
	Failed    Verdict = "failed"    // the check could not be run
	Unchecked Verdict = "unchecked" // there is no check for its business type
)

// Record is one business record that a hold or an optimistic answer of the period named.
// What events carry of users and owners is the business id and the holders' fingerprints,
// nothing else.
type Record struct {
	Type       string    `json:"type"`
	ID         string    `json:"id"`
	Chains     []string  `json:"chains"`
	Keys       []string  `json:"keys"`    // lock keys, at most 10
	Holders    []string  `json:"holders"` // fingerprints, at most 10
	Holds      int       `json:"holds"`
	Shared     int       `json:"shared"`
	Local      int       `json:"local"`
	Bypass     int       `json:"bypass"`
	Optimistic int       `json:"optimistic"`
	Delta      int64     `json:"delta"` // sum of what the holds told
	First      time.Time `json:"first"`
	Last       time.Time `json:"last"`
	Conflicts  []string  `json:"conflicts"` // ids
	AtRisk     int64     `json:"at_risk"`   // see [Amount]
	Repaired   int64     `json:"repaired"`
	Check      Verdict   `json:"check"`
	Wrong      int64     `json:"wrong"` // what the check found when the report was made
	Error      string    `json:"error,omitempty"`
	Action     string    `json:"action"` // what was done about it
	Owner      string    `json:"owner"`  // who answers for it
	Settled    bool      `json:"settled,omitempty"`
	Hand       []Hand    `json:"by_hand,omitempty"`
}

// Hand is what a person has noted about a record, in a draft.
type Hand struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Owner   string    `json:"owner,omitempty"`
	Action  string    `json:"action,omitempty"`
	Settled bool      `json:"settled,omitempty"`
}

// Check sums the checks of one business type up.
type Check struct {
	Type      string `json:"type"`
	Records   int    `json:"records"`
	Clean     int    `json:"clean"`
	Wrong     int    `json:"wrong"`
	Failed    int    `json:"failed"`
	Unchecked int    `json:"unchecked"`
}

// Amount is what is at stake in one business type, in the unit of its deltas and checks.
type Amount struct {
	Type string `json:"type"`
	// AtRisk sums |delta| of the losing holds of standing conflicts: what they could have
	// done wrong at most; a hold whose work was rolled back loses nothing. NoDelta counts losing holds that told none.
	AtRisk   int64 `json:"at_risk"`
	NoDelta  int   `json:"no_delta"`
	Repaired int64 `json:"repaired"` // what checks found wrong before each repair that was applied
	Open     int64 `json:"open"`     // what checks find wrong now, in all records touched, not settled by hand
}

// Certificate says how far the events can be relied on to be all there are.
type Certificate struct {
	// Bypass: every bypass grant of the period was seen. Complete: every event of it was,
	// and every record that it touched is listed.
	Bypass     bool        `json:"bypass_complete"`
	Complete   bool        `json:"complete"`
	Partitions []Partition `json:"partitions"`
	Producers  []Producer  `json:"producers"`
	Gaps       []Gap       `json:"gaps"`
	Tails      []Tail      `json:"tails"`
	Unknown    []string    `json:"unknown"`   // producers that were expected and of which nothing was heard
	Malformed  []Malformed `json:"malformed"` // records that are no event, at most 100
	Unreadable int         `json:"unreadable"`
	Blind      []string    `json:"blind"`    // what is not recorded or not looked at
	Unlisted   int         `json:"unlisted"` // records beyond Config.MaxRecords: counted, not listed, not checked
	Longest    int64       `json:"longest_hold_ms"`
}

// Partition is what was read of one.
type Partition struct {
	Partition int       `json:"partition"`
	Oldest    int64     `json:"oldest"` // oldest offset there was
	From      int64     `json:"from"`   // From ≤ offset < To was read
	To        int64     `json:"to"`
	Begins    time.Time `json:"begins,omitzero"` // when the record at From was appended
	Records   int64     `json:"records"`         // read
}

// Producer is one process that was heard.
type Producer struct {
	Producer string    `json:"producer"`
	Epochs   []uint64  `json:"epochs"`
	First    time.Time `json:"first"` // time of its first and last event read
	Last     time.Time `json:"last"`
	Events   uint64    `json:"events"`
	Sealed   bool      `json:"sealed"` // its last epoch
	Versions []uint64  `json:"switch_versions"`
	Policies []string  `json:"policy_hashes"`
}

// Gap is what is missing.
type Gap struct {
	reconcile.Gap
	Earliest time.Time `json:"earliest,omitzero"` // what is missing happened between Earliest and Latest; zero: not known
	Latest   time.Time `json:"latest,omitzero"`
	Bypass   bool      `json:"bypass"` // a bypass grant may be missing
	Note     string    `json:"note"`
}

// Tail is a producer that has not told everything up to the end of the period.
type Tail struct {
	Producer   string    `json:"producer"`
	Epoch      uint64    `json:"epoch"`
	Told       time.Time `json:"told,omitzero"` // everything until then was told
	Oldest     time.Time `json:"oldest_unsent,omitzero"`
	Partitions []int     `json:"partitions"`
	Note       string    `json:"note"`
}

// Malformed is a record that is no event.
type Malformed struct {
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    string `json:"reason"`
}

// Exit tells whether nothing is open and completeness is given.
func (r *Report) Exit() (fine bool) { return r.Total.Open == 0 && r.Certificate.Complete }

// how adds one end to a row.
func (q *Requests) how(h audit.How) {
	switch h {
	case audit.Released:
		q.Released++
	case audit.Expired:
		q.Expired++
	case audit.Lost:
		q.Lost++
	case audit.Forced:
		q.Forced++
	default:
		q.Untold++
	}
}

func (q *Requests) work(w audit.Work) {
	switch w {
	case audit.Committed:
		q.Committed++
	case audit.RolledBack:
		q.RolledBack++
	}
}
