package incident

import (
	"cmp"
	"slices"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// recordKey names a business record.
type recordKey struct{ kind, id string }

// records are the business records that the period touched.
type records struct {
	cfg  *Config
	by   map[recordKey]*touched
	more map[recordKey]struct{}   // beyond Config.MaxRecords
	over int                      // beyond mostUnlisted, counted each time they are named
	open map[holdKey]*audit.Event // granted before the period, and not known to be over

	after map[recordKey]string // lock key of what was granted after it, see follow
}

// mostUnlisted bounds the names that are kept of records which are not listed, so that
// each is counted once.
const mostUnlisted = 1_000_000

// touched is a record while it is counted.
type touched struct {
	Record
	hold    reconcile.Interval // the last hold that named it, or the last that lost
	keys    map[string]bool
	holders map[string]bool
	chains  map[string]bool
	losses  bool // hold is one that lost
}

// mostNames bounds the lock keys and holders that are listed of one record.
const mostNames = 10

func newRecords(cfg *Config) records {
	return records{cfg: cfg, by: map[recordKey]*touched{}, more: map[recordKey]struct{}{}, open: map[holdKey]*audit.Event{}, after: map[recordKey]string{}}
}

// hold takes a grant. One of the period touches its record at once; one from before does
// when it is known to have reached into the period.
func (r *records) hold(ev *audit.Event) {
	if ev.Business.IsZero() {
		return
	}
	if !ev.GrantedAt.Before(r.cfg.To) {
		r.follow(ev)
		return
	}
	if r.cfg.holds(ev.GrantedAt) {
		r.touch(ev)
		return
	}
	if ev.GrantedAt.Add(r.cfg.Longest).Before(r.cfg.From) {
		return
	}
	kept := *ev
	r.open[holdKey{ev.Key.String(), ev.Holder}] = &kept
}

// end tells when a hold ended that was granted before the period. One whose acquire comes
// after its end, or never, is taken to have reached in: a record too many is checked, none
// too few.
func (r *records) end(ev *audit.Event) {
	if !ev.GrantedAt.Before(r.cfg.From) || ev.GrantedAt.Add(r.cfg.Longest).Before(r.cfg.From) {
		return
	}
	id := holdKey{ev.Key.String(), ev.Holder}
	begun := r.open[id]
	delete(r.open, id)
	switch {
	case ev.EndedAt.Before(r.cfg.From):
	case begun != nil:
		r.touch(begun)
	case !ev.Business.IsZero():
		r.touch(ev)
	}
}

// settle takes the holds of before the period that nobody ended: they may have reached in.
func (r *records) settle() {
	for _, ev := range r.open {
		longest := max(ev.TTL, ev.MaxHold)
		if longest == 0 {
			longest = r.cfg.Longest
		}
		if !ev.GrantedAt.Add(longest).Before(r.cfg.From) {
			r.touch(ev)
		}
	}
	clear(r.open)
}

// answer takes an optimistic answer.
func (r *records) answer(ev *audit.Event) {
	if !ev.Business.IsZero() && (r.cfg.holds(ev.GrantedAt) || r.cfg.holds(ev.Time())) {
		r.touch(ev)
	}
}

func (r *records) touch(ev *audit.Event) {
	id := recordKey{ev.Business.Type, ev.Business.ID}
	t := r.by[id]
	if t == nil {
		if len(r.by) >= r.cfg.MaxRecords {
			r.pass(id)
			return
		}
		t = &touched{
			Record: Record{Type: id.kind, ID: id.id, Check: Unchecked, Owner: r.cfg.Owners[id.kind], Conflicts: []string{}},
			keys:   map[string]bool{}, holders: map[string]bool{}, chains: map[string]bool{},
		}
		r.by[id] = t
	}
	t.Holds++
	switch ev.Tier {
	case tierlock.Shared:
		t.Shared++
	case tierlock.Local:
		t.Local++
	case tierlock.Bypass:
		t.Bypass++
	case tierlock.Optimistic:
		t.Optimistic++
	}
	t.Delta += ev.Business.Delta
	t.chains[ev.Chain] = true
	note(t.keys, ev.Key.String())
	note(t.holders, ev.Holder)
	t.First, t.Last = earlier(t.First, ev.GrantedAt), later(t.Last, ev.GrantedAt)
	if !t.losses && !ev.GrantedAt.Before(t.hold.GrantedAt) {
		t.hold = interval(ev)
	}
}

func note(set map[string]bool, name string) {
	if len(set) < mostNames {
		set[name] = true
	}
}

// pass counts a record that is not listed.
func (r *records) pass(id recordKey) {
	if _, known := r.more[id]; known {
		return
	}
	if len(r.more) >= mostUnlisted {
		r.over++
		return
	}
	r.more[id] = struct{}{}
}

func (r *records) unlisted() int { return len(r.more) + r.over }

// interval is the hold as its first event tells it.
func interval(ev *audit.Event) reconcile.Interval {
	return reconcile.Interval{
		Event: ev.EventID(), Chain: ev.Chain, Key: ev.Key, Holder: ev.Holder, Tier: ev.Tier, Store: ev.Store, Token: ev.Token,
		Producer: ev.Producer, Epoch: ev.Epoch, GrantedAt: ev.GrantedAt, EndedAt: ev.EndedAt, Latest: ev.Time(), TTL: ev.TTL,
		Error: ev.ClockError, How: ev.How, Outcome: ev.Outcome, Switch: ev.Switch, Business: ev.Business,
	}
}

// list returns the records by type and id.
func (r *records) list() []*touched {
	out := make([]*touched, 0, len(r.by))
	for _, t := range r.by {
		t.Chains, t.Keys, t.Holders = sorted(t.chains), sorted(t.keys), sorted(t.holders)
		t.First, t.Last = t.First.UTC(), t.Last.UTC()
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *touched) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID)) })
	return out
}
