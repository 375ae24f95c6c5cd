package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

// Kind says what a finding is about.
type Kind string

// The kinds.
const (
	KindOverlap Kind = "overlap" // holds of one key overlapped
	KindGap     Kind = "gap"     // events are missing: what overlapped with them is unknown
	KindSilent  Kind = "silent"  // a producer sent nothing for Config.Idle and is no longer waited for
)

// State is how far a finding has come. It only moves forward while the content stays.
type State string

// The states, in their order.
const (
	StateOpen       State = "open"       // found; a check or a repair is due, or there is no hook for it
	StateHarmless   State = "harmless"   // of no two holds that overlapped both can have left anything: see AtRiskPairs. Nothing is checked
	StateClean      State = "clean"      // checked: nothing is wrong now
	StateDryRun     State = "dry_run"    // checked: something is wrong, and would be repaired
	StateWaiting    State = "waiting"    // checked: something is wrong, and people are asked whether to repair it
	StateRejected   State = "rejected"   // they have said no
	StateFailed     State = "failed"     // check or repair failed as often as the caps allow, or no repair changed anything
	StateRepaired   State = "repaired"   // something was wrong and is not any more
	StateSuperseded State = "superseded" // its holds are in a larger finding now, see By
	StateWithdrawn  State = "withdrawn"  // a late event showed that its holds did not overlap
)

var stages = map[State]int{
	StateOpen: 0, StateHarmless: 1, StateClean: 1, StateDryRun: 1, StateWaiting: 1, StateRejected: 2, StateFailed: 2, StateRepaired: 3, StateSuperseded: 4, StateWithdrawn: 4,
}

// Stage is the place of s in the order of states.
func (s State) Stage() int { return stages[s] }

// Finding is one group of holds of one key that overlapped, or one thing that is missing.
// It is the same on every replay: its ID is made of the rule and its earliest member.
type Finding struct {
	ID string `json:"id"`
	// Revision is how far its partition had been read when it was judged, in records: what
	// was judged knowing more has a higher one.
	Revision int64  `json:"revision"`
	Digest   string `json:"digest,omitempty"` // of its content: equal on every replay that knows the same
	Kind     Kind   `json:"kind"`
	State    State  `json:"state"`
	By       string `json:"by,omitempty"` // superseded: the finding that took it in

	Chain   string       `json:"chain,omitempty"`
	Key     tierlock.Key `json:"key,omitzero"`
	Certain bool         `json:"certain"` // at least one pair overlapped whatever the clocks
	// Provisional: events of its time are known to be missing, or their producer has fallen
	// silent, so that a later revision may have other members, or withdraw it. One that is not
	// is final as far as anybody has said: what comes all the same makes a revision too.
	Provisional bool       `json:"provisional,omitempty"`
	Awaited     []string   `json:"awaited,omitempty"` // the producers it waits for; none where nobody knows whose events are missing
	Causes      []Cause    `json:"causes,omitempty"`
	Members     []Interval `json:"members,omitempty"` // by grant
	// Pairs counts the pairs of members that may have overlapped, CertainPairs those that
	// did. Not every two members are a pair: they are connected through others.
	Pairs        int `json:"pairs,omitempty"`
	CertainPairs int `json:"certain_pairs,omitempty"`
	// AtRiskPairs counts the pairs of which neither hold's work was rolled back, as its end event
	// tells: only they can have broken anything. That two holds overlapped stays a finding.
	AtRiskPairs int       `json:"at_risk_pairs,omitempty"`
	Depth       int       `json:"depth,omitempty"`   // most members inside at once, by raw time
	Part        int       `json:"part,omitempty"`    // of a group beyond Rule.Group: 2, 3, …
	Carried     int       `json:"carried,omitempty"` // the first members, shown again from the part before
	From        time.Time `json:"from,omitzero"`     // first grant
	To          time.Time `json:"to,omitzero"`       // latest possible end

	Gap     *Gap     `json:"gap,omitempty"`
	Repairs []Repair `json:"repairs,omitempty"`

	// Of a finding that is too large for a message, what a topic does not carry; see Brief. A
	// table has all of it.
	Omitted        int      `json:"omitted,omitempty"`         // members left out of the middle
	OmittedRepairs int      `json:"omitted_repairs,omitempty"` // repairs left out of the middle
	Absorbed       []string `json:"absorbed,omitempty"`        // what Supersedes would list of those members
}

// Gap names what is missing.
type Gap struct {
	Partition int       `json:"partition"`
	Producer  string    `json:"producer,omitempty"`
	Epoch     uint64    `json:"epoch,omitempty"`
	Cause     string    `json:"cause"` // sequence, folder_lost, retention, shrunk, partitions, silent, or the cause a gap event gives
	From      uint64    `json:"from,omitempty"`
	To        uint64    `json:"to,omitempty"`    // zero: open
	Count     uint64    `json:"count,omitempty"` // zero: unknown
	At        time.Time `json:"at,omitzero"`
}

// Repair is what became of one losing hold of a finding.
type Repair struct {
	Key    string `json:"key"`   // see [Case.ID]
	Loser  string `json:"loser"` // event id
	Result Result `json:"result"`
	Wrong  int64  `json:"wrong,omitempty"` // how much the check found wrong before
	Error  string `json:"error,omitempty"`

	Waits string   `json:"waits,omitempty"` // waiting: for whom, as "2 approvals"
	By    []string `json:"by,omitempty"`    // who has approved or rejected it
}

// Findings stores findings. Put is an upsert by ID: a finding takes the place of the stored
// one where [Finding.Replaces] says so, and [Finding.Supersedes] names those it takes in.
// Put must be safe to repeat; it is called by one goroutine. An error makes the job try
// again, and no offset is committed before Put has succeeded.
type Findings interface {
	Put(ctx context.Context, f Finding) error
}

// Recaller is a [Findings] that can tell what it has stored. When a late event has a
// partition read again, the job asks it for the findings of the event's key, so that one
// which an earlier life of the job gave out can be withdrawn. Without one, such a finding
// stands although the events disprove it; a finding of the same life is always withdrawn.
type Recaller interface {
	// Standing are the overlaps of key that stand: neither superseded nor withdrawn. An
	// error makes the job try again.
	Standing(ctx context.Context, key tierlock.Key) ([]Finding, error)
}

// Replaces tells whether f takes the place of stored, which has the same ID. The same
// content only moves forward in its state: a replay does not open what was repaired. Other
// content needs to have been judged knowing as much.
func (f *Finding) Replaces(stored *Finding) bool {
	if f.Digest == stored.Digest {
		return f.State.Stage() >= stored.State.Stage()
	}
	return f.Revision >= stored.Revision
}

// idOf makes the id of a finding from what never changes about it.
func idOf(parts ...string) string {
	return hashOf("tierlock.finding."+strconv.Itoa(ruleVersion), parts)
}

// hashOf is 32 hex digits of SHA-256 over the parts, each kept apart from the next.
func hashOf(kind string, parts []string) string {
	h := sha256.New()
	h.Write([]byte(kind))
	for _, p := range parts {
		h.Write([]byte{0})
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func overlapID(iv *Interval) string {
	return idOf("overlap", iv.Key.String(), iv.Holder, stamp(iv.GrantedAt))
}

// stamp writes a time as events do: whole microseconds.
func stamp(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

// Supersedes lists the ids that findings of any later member would have had: whichever of
// them was stored before this finding's earlier members were known is part of it now.
func (f *Finding) Supersedes() []string { return append(f.supersedes(), f.Absorbed...) }

func (f *Finding) supersedes() []string {
	if f.Kind != KindOverlap || len(f.Members) <= f.Carried || slices.Contains(f.Causes, CauseSplitKey) {
		return nil // by record: its later members' own findings are by key, and stand
	}
	own := f.Members[f.Carried+1:]
	ids := make([]string, len(own))
	for i := range own {
		ids[i] = overlapID(&own[i])
	}
	return ids
}
