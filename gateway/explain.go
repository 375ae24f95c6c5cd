package gateway

import (
	"context"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/switchcfg"
)

// mostExplained bounds each list of an Explanation; the count beside it is the whole.
const mostExplained = 16

// Explanation tells what a new request for one key would meet, and why: everything that
// this process knows of the key, and one look into its store. As JSON it stands on the wire
// of the admin pages; [Explanation.WriteText] is for people. No request id is in it, only
// fingerprints. All times are UTC.
type Explanation struct {
	At       time.Time         `json:"at"`
	Key      tierlock.Key      `json:"key"`
	Asked    tierlock.Key      `json:"asked,omitzero"` // the id's own key, where Key is that of its shard
	Chain    string            `json:"chain"`
	Class    degrade.Class     `json:"class"`
	Protects string            `json:"protects"`
	Next     ExplainedNext     `json:"next"`
	Order    *ExplainedOrder   `json:"order,omitempty"`   // on the chain; nil: none
	DryRun   *ExplainedOrder   `json:"dry_run,omitempty"` // that nobody obeys; nil: none
	Health   ExplainedHealth   `json:"health"`
	Store    ExplainedStore    `json:"store"`
	Held     int               `json:"held"`                      // locks of this process on the key
	Holders  []ExplainedHolder `json:"holders"`                   // the first 16 of them
	Waiting  int               `json:"waiting"`                   // calls of this process in line for the key, the one that asks included
	Doubtful int               `json:"doubtful"`                  // what the ledger has to give back of the key
	InDoubt  []ExplainedDoubt  `json:"in_doubt"`                  // the first 16 of it
	Steps    []ExplainedStep   `json:"steps"`                     // the last 8 changes of health, oldest first
	Orders   []ExplainedOrder  `json:"orders"`                    // the last 8 changes of the order, oldest first; mode auto: it ended
	Applied  uint64            `json:"switch_version"`            // of the document in force; 0: none was seen
	Withheld uint64            `json:"switch_withheld,omitempty"` // of one whose canary leaves this instance out
	Policy   map[string]string `json:"policy,omitempty"`          // every field, by its name in files
}

// ExplainedNext is what one attempt of somebody new would be told now.
type ExplainedNext struct {
	Tier    tierlock.Tier    `json:"tier,omitempty"` // that the ladder sends it to; 0: to none
	Outcome tierlock.Outcome `json:"outcome"`
	Reason  tierlock.Reason  `json:"reason,omitempty"`
	Advice  tierlock.Advice  `json:"advice,omitempty"`
	By      string           `json:"by"`               // what decided: health, order, store, holder (of this process), table, lock_delay
	Admits  string           `json:"admits,omitempty"` // trickle: two a second try; ramp: Share of the wire may be out; under: less than that; one: at a time for each key
	Share   float64          `json:"share,omitempty"`
	Others  *ExplainedNext   `json:"others,omitempty"` // what those are told who are not admitted

	// Observed is why the ladder would send it elsewhere, were the chain not on observe, and
	// Instead the tier: 0 for none.
	Observed tierlock.Reason `json:"observed,omitempty"`
	Instead  tierlock.Tier   `json:"instead,omitempty"`
}

// ExplainedOrder is an operator's order.
type ExplainedOrder struct {
	At      time.Time     `json:"at,omitzero"` // in the list of changes: when it began
	Mode    tierlock.Mode `json:"mode"`
	Until   time.Time     `json:"until,omitzero"`
	Percent uint8         `json:"percent,omitempty"`
	Version uint64        `json:"version,omitempty"`
	Reason  string        `json:"reason,omitempty"`
	By      string        `json:"by,omitempty"`
	Covers  bool          `json:"covers"` // this key is among the percent
}

// ExplainedHealth is where the chain stands with the part of the store that serves the key.
type ExplainedHealth struct {
	Store     string           `json:"store"`            // its name in Config.Stores
	Target    string           `json:"target,omitempty"` // empty on a store without parts
	State     degrade.State    `json:"state"`
	Reason    tierlock.Reason  `json:"reason,omitempty"`
	Since     time.Time        `json:"since"`
	Steps     uint64           `json:"steps"` // changes of State so far
	Out       int              `json:"out"`   // operations on the wire
	Own       int              `json:"own"`   // of them, this chain's
	Limit     int              `json:"limit"` // of the wire
	Sensed    ExplainedSignals `json:"sensed"`
	LockDelay int64            `json:"lock_delay_ms,omitempty"` // nothing is granted for so long
}

// ExplainedSignals is what the sensor reads; see [degrade.Signals].
type ExplainedSignals struct {
	Occupancy     float64 `json:"occupancy"`
	WeakOccupancy float64 `json:"weak_occupancy"`
	Timeouts      int     `json:"timeouts"`
	Failures      int     `json:"failures"`
	Refused       bool    `json:"refused"`
	Open          bool    `json:"open"`
	ProbeFailed   bool    `json:"probe_failed"`
	Unanswered    int64   `json:"unanswered_ms"`
	Probes        int     `json:"probes"`
	FastProbes    int     `json:"fast_probes"`
}

func explainSignals(s degrade.Signals) ExplainedSignals {
	return ExplainedSignals{
		Occupancy: s.Occupancy, WeakOccupancy: s.WeakOccupancy, Timeouts: s.Timeouts, Failures: s.Failures,
		Refused: s.Refused, Open: s.Open, ProbeFailed: s.ProbeFailed, Unanswered: s.Unanswered.Milliseconds(),
		Probes: s.Probes, FastProbes: s.FastProbes,
	}
}

// At is what a machine takes a step by, at that moment.
func (s *ExplainedSignals) At(at time.Time) degrade.Signals {
	return degrade.Signals{
		At: at, Occupancy: s.Occupancy, WeakOccupancy: s.WeakOccupancy, Timeouts: s.Timeouts, Failures: s.Failures,
		Refused: s.Refused, Open: s.Open, ProbeFailed: s.ProbeFailed, Unanswered: time.Duration(s.Unanswered) * time.Millisecond,
		Probes: s.Probes, FastProbes: s.FastProbes,
	}
}

// ExplainedStore is what the store said to one Lookup.
type ExplainedStore struct {
	Found     string          `json:"found"` // held, free, or unknown: it did not answer, or was not asked
	Holder    string          `json:"holder,omitempty"`
	Remaining int64           `json:"remaining_ms,omitempty"` // held: 0: the store does not tell, or Endless
	Endless   bool            `json:"endless,omitempty"`      // held: without a ttl, so that it ends at no time by itself
	Here      bool            `json:"here,omitempty"`         // the holder is a lock of this process
	Fault     tierlock.Reason `json:"fault,omitempty"`        // why it is unknown
	Error     string          `json:"error,omitempty"`        // in the store's words
	Took      int64           `json:"took_us,omitempty"`
}

// ExplainedHolder is a lock of this process.
type ExplainedHolder struct {
	Holder     string          `json:"holder"`
	Tier       tierlock.Tier   `json:"tier"`
	Exclusive  bool            `json:"exclusive"`
	Token      tierlock.Token  `json:"token,omitempty"`
	AcquiredAt time.Time       `json:"acquired_at"`
	Expires    int64           `json:"expires_in_ms"`
	Entries    int             `json:"entries"`                   // that were not given back
	Renews     int64           `json:"renews_every_ms,omitempty"` // 0: nobody renews it
	Reason     tierlock.Reason `json:"reason,omitempty"`          // why it is not plainly shared
}

// ExplainedDoubt is something that the ledger gives back: an acquire that was not answered, or
// a release.
type ExplainedDoubt struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`  // then the store has freed the key by itself
	Asking bool      `json:"asking"` // a release is under way
}

// ExplainedStep is one change of health.
type ExplainedStep struct {
	At     time.Time       `json:"at"`
	From   degrade.State   `json:"from"`
	To     degrade.State   `json:"to"`
	Reason tierlock.Reason `json:"reason,omitempty"`
}

// Explain tells what a new request for key would meet now, and why. It changes nothing and
// asks the store once, within the policy's attempt; a store that is known to be down is not
// asked. A store that does not answer is no error but part of the explanation. The error is
// ErrInvalid for a key of no chain, or ErrClosed.
func (g *Gateway) Explain(ctx context.Context, key tierlock.Key) (*Explanation, error) {
	c, id, err := g.ChainOf(key)
	if err != nil {
		return nil, err
	}
	var r request
	if err := c.requestFor(&r, id, nil); err != nil {
		return nil, err
	}
	if !g.enter() {
		return nil, tierlock.ErrClosed
	}
	defer g.leave()
	r.ladder = c.ladderOf(r.key)
	found := c.lookFor(ctx, &r)
	now := time.Now()
	x := &Explanation{
		At: now.UTC().Round(time.Microsecond), Key: r.key, Asked: r.about, Chain: c.name, Class: c.policy.Ladder.Class, Protects: c.policy.Protects,
		Order: c.order.Load().explain(r.hash, now), DryRun: c.dry.Load().explain(r.hash, now), Withheld: g.applied.withheld.Load(), Health: r.ladder.explain(&r, now), Store: found,
		Waiting: g.lines.count(r.key, r.hash), Applied: g.AppliedVersion(), Policy: switchcfg.Words(*r.policy),
		Steps: r.ladder.pastSteps(), Orders: c.orders.explain(r.hash),
	}
	x.Holders, x.Held = g.locks.explain(r.key, r.hash, now)
	x.InDoubt, x.Doubtful = g.ledger.explain(r.key)
	for i := range x.Holders {
		x.Store.Here = x.Store.Here || x.Holders[i].Tier == tierlock.Shared && x.Holders[i].Holder == found.Holder
	}
	x.Next = c.foresee(&r, &x.Store, x.Holders, now)
	return x, nil
}

// lookFor asks the store who holds the key, under an id that nobody has.
func (c *Chain) lookFor(ctx context.Context, r *request) ExplainedStore {
	began := time.Now()
	if r.ladder.down() {
		return ExplainedStore{Found: "unknown", Fault: tierlock.ReasonDown, Error: "not asked"}
	}
	pass := r.ladder.count(began)
	ans, cause := c.store.Lookup(tierlock.Until(ctx, r.deadline(ctx, began)), r.hold(r.ttl))
	pass.Exit(cause)
	found := ExplainedStore{Took: time.Since(began).Microseconds()}
	switch {
	case cause != nil:
		found.Found, found.Fault, found.Error = "unknown", faultReason(cause), cause.Error()
		if canceled(ctx, time.Now()) {
			found.Fault = tierlock.ReasonCanceled
		}
	case ans.Status == tierlock.Held:
		found.Found, found.Holder, found.Remaining, found.Endless = "held", ans.Holder, ans.Remaining.Milliseconds(), ans.Endless
	default:
		found.Found = "free"
	}
	return found
}

// foresee is the way of an attempt, from the ladder to the answer, without making it.
func (c *Chain) foresee(r *request, store *ExplainedStore, here []ExplainedHolder, now time.Time) ExplainedNext {
	route := r.route(now)
	next := ExplainedNext{Tier: route.Tier, Outcome: tierlock.Success, Reason: route.Reason, By: "health", Observed: route.Observed, Instead: route.Instead}
	if r.order != nil {
		next.By = "order"
	}
	switch route.Tier {
	case tierlock.Shared:
		next.admitted(r, route)
		if err := c.heldLocally(r, now); err != nil {
			return next.refused(err.Verdict, "holder")
		}
		if err := r.tooYoung(now); err != nil {
			return next.refused(err.Verdict, "lock_delay")
		}
		switch store.Found {
		case "held":
			return next.refused(r.policy.Ladder.Refusal(tierlock.ReasonHeld), "store")
		case "unknown":
			return next.refused(r.policy.Ladder.Refusal(store.Fault), "store")
		}
	case tierlock.Local:
		if err := c.heldShared(r); err != nil {
			return next.refused(err.Verdict, "holder")
		}
		return c.foreseeLocal(r, next, here)
	case tierlock.Bypass:
	default:
		return next.refused(route.Verdict, next.By)
	}
	return next
}

// foreseeLocal asks for a permit of the table.
func (c *Chain) foreseeLocal(r *request, next ExplainedNext, here []ExplainedHolder) ExplainedNext {
	taken, alone := 0, false
	for i := range here {
		if here[i].Tier == tierlock.Local {
			taken++
			alone = alone || here[i].Exclusive // and stays so, whatever permits has become since
		}
	}
	switch p := &r.policy.Local; {
	case alone, taken >= p.Permits:
		return next.refused(r.policy.Ladder.Refusal(tierlock.ReasonHeld), "table")
	case taken == 0 && c.table.Live() >= p.Keys:
		return next.refused(r.policy.Ladder.Refusal(tierlock.ReasonFull), "table")
	}
	return next
}

// admitted says who may go out to a store that is slow, full or coming back.
func (n *ExplainedNext) admitted(r *request, route degrade.Route) {
	switch route.Admit {
	case degrade.AdmitTrickle:
		n.Admits = "trickle"
	case degrade.AdmitRamp:
		n.Admits, n.Share = "ramp", route.Share
	case degrade.AdmitUnder:
		n.Admits, n.Share = "under", route.Share
	case degrade.AdmitOne:
		n.Admits = "one"
	default:
		return
	}
	others := ExplainedNext{}.refused(r.policy.Ladder.Refusal(route.Reason), "health")
	n.Others = &others
}

// refused is n with the verdict of somebody who is not served.
func (n ExplainedNext) refused(v tierlock.Verdict, by string) ExplainedNext {
	n.Outcome, n.Reason, n.Advice, n.By = v.Outcome, v.Reason, v.Advice, by
	return n
}
