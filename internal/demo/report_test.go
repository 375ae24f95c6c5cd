//go:build !nodemo

package demo

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/reconcile"
)

func good() *Report {
	return &Report{Tiers: Tiers{1, 1, 1, 1}, Strong: StrongReport{StaleTried: 2, StaleRefused: 2}}
}

func TestOKIsTrueOnlyWhenNothingIsWrong(t *testing.T) {
	fine := good()
	if fine.judge(); !fine.OK {
		t.Fatalf("a good report is not ok: %v", fine.faults())
	}
	for name, spoil := range map[string]func(*Report){
		"missing event":   func(r *Report) { r.Audit.Missing = 1 },
		"unknown event":   func(r *Report) { r.Audit.Unknown = 1 },
		"missed conflict": func(r *Report) { r.Conflicts.Missed = 1 },
		"false conflict":  func(r *Report) { r.Conflicts.False = 1 },
		"strong overlap":  func(r *Report) { r.Strong.Overlaps = 1 },
		"stale write":     func(r *Report) { r.Strong.StaleRefused = 1 },
		"no stale try":    func(r *Report) { r.Strong = StrongReport{} },
		"over the limit":  func(r *Report) { r.Business.OverLimitAfter = 1 },
		"negative stock":  func(r *Report) { r.Business.StockNegative = 1 },
		"duplicate order": func(r *Report) { r.Business.DuplicateOrders = 1 },
		"orphan":          func(r *Report) { r.Orphans = 1 },
		"no shared":       func(r *Report) { r.Tiers.Shared = 0 },
		"no optimistic":   func(r *Report) { r.Tiers.Optimistic = 0 },
		"no local":        func(r *Report) { r.Tiers.Local = 0 },
		"no bypass":       func(r *Report) { r.Tiers.Bypass = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := good()
			spoil(r)
			if r.judge(); r.OK {
				t.Fatal("ok")
			}
			if len(r.faults()) == 0 {
				t.Error("and no fault is named")
			}
		})
	}
}

func TestJSONIsOneObjectWithEveryField(t *testing.T) {
	r := good()
	r.Flips = []Flip{{}}
	r.Policy = map[string]Policy{"order": policyOf(order.Policy())}
	var b bytes.Buffer
	if err := r.writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	dec := json.NewDecoder(&b)
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if dec.More() {
		t.Error("more than one object")
	}
	want := "audit business conflicts flips ok orphan_locks outcomes policy requests seconds strong tiers"
	if names := strings.Join(slices.Sorted(maps.Keys(got)), " "); names != want {
		t.Errorf("fields %s", names)
	}
	for field, want := range map[string]string{
		"tiers": "bypass local optimistic shared", "outcomes": "failure success system_error timeout",
		"audit": "bypass_grants events_in_kafka missing unknown", "conflicts": "false found missed oracle repaired",
		"strong":   "overlaps stale_refused stale_tried",
		"business": "coupons_over_limit_after coupons_over_limit_before duplicate_orders stock_negative",
	} {
		if names := strings.Join(slices.Sorted(maps.Keys(got[field].(map[string]any))), " "); names != want {
			t.Errorf("%s has %s, want %s", field, names, want)
		}
	}
	if names := strings.Join(slices.Sorted(maps.Keys(got["flips"].([]any)[0].(map[string]any))), " "); names != "at chain from instance reason to" {
		t.Errorf("a flip has %s", names)
	}
}

func TestTrailNamesWhatIsMissingAndWhatIsUnknown(t *testing.T) {
	k := key(t, "biz:coupon:lock:1")
	id := tierlock.NewRequestID()
	event := func(kind audit.Type, id tierlock.RequestID, how audit.How) *audit.Event {
		return &audit.Event{Type: kind, Key: k, Holder: id.Fingerprint(), How: how}
	}
	for name, c := range map[string]struct {
		events           []*audit.Event
		grants           int
		optimistic       int64
		missing, unknown int64
	}{
		"both events are there": {[]*audit.Event{event(audit.TypeAcquire, id, ""), event(audit.TypeEnd, id, audit.Released)}, 1, 0, 0, 0},
		"no acquire":            {[]*audit.Event{event(audit.TypeEnd, id, audit.Released)}, 1, 0, 1, 0},
		"no end":                {[]*audit.Event{event(audit.TypeAcquire, id, "")}, 1, 0, 1, 0},
		"none":                  {nil, 1, 0, 1, 0},
		"a grant nobody got":    {[]*audit.Event{event(audit.TypeAcquire, id, ""), event(audit.TypeEnd, id, audit.Released)}, 0, 0, 0, 1},
		"a caller had given up": {[]*audit.Event{event(audit.TypeAcquire, id, ""), event(audit.TypeEnd, id, audit.Forced)}, 0, 0, 0, 0},
		"a point is missing":    {nil, 0, 1, 1, 0},
		"a point too many":      {[]*audit.Event{event(audit.TypeOptimistic, id, "")}, 0, 0, 0, 1},
		"markers are not holds": {[]*audit.Event{{Type: audit.TypeHello}, {Type: audit.TypeHeartbeat}}, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &trail{holds: map[ref]mark{}}
			for _, ev := range c.events {
				tr.take(ev)
			}
			var grants []granted
			for range c.grants {
				grants = append(grants, granted{k, id, tierlock.Bypass})
			}
			var r AuditReport
			tr.compare(grants, c.optimistic, &r)
			if r.Missing != c.missing || r.Unknown != c.unknown {
				t.Fatalf("missing %d, unknown %d; want %d, %d", r.Missing, r.Unknown, c.missing, c.unknown)
			}
		})
	}
}

func TestFindingsAreHeldAgainstTheOracle(t *testing.T) {
	const ms = time.Millisecond
	k := key(t, "biz:coupon:lock:1")
	holds := []*hold{held(k, 0, 10*ms), held(k, 5*ms, 15*ms), held(k, 20*ms, 30*ms)}
	finding := func(certain bool, members ...*hold) reconcile.Finding {
		f := reconcile.Finding{Kind: reconcile.KindOverlap, Certain: certain}
		for _, h := range members {
			f.Members = append(f.Members, reconcile.Interval{Key: h.key, Holder: h.id.Fingerprint()})
		}
		return f
	}
	for name, c := range map[string]struct {
		findings []reconcile.Finding
		want     ConflictReport
	}{
		"found":                       {[]reconcile.Finding{finding(true, holds[0], holds[1])}, ConflictReport{Oracle: 1, Found: 1}},
		"found among others":          {[]reconcile.Finding{finding(false, holds...)}, ConflictReport{Oracle: 1, Found: 1}},
		"not found":                   {nil, ConflictReport{Oracle: 1, Missed: 1}},
		"each in one of its own":      {[]reconcile.Finding{finding(false, holds[0]), finding(false, holds[1])}, ConflictReport{Oracle: 1, Found: 2, Missed: 1}},
		"falsely called certain":      {[]reconcile.Finding{finding(true, holds[0], holds[1]), finding(true, holds[1], holds[2])}, ConflictReport{Oracle: 1, Found: 2, False: 1}},
		"falsely called possible":     {[]reconcile.Finding{finding(true, holds[0], holds[1]), finding(false, holds[1], holds[2])}, ConflictReport{Oracle: 1, Found: 2}},
		"certain of holds unheard of": {[]reconcile.Finding{finding(true, holds[0], holds[1]), finding(true, held(k, 0, ms), held(k, 0, ms))}, ConflictReport{Oracle: 1, Found: 2, False: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got ConflictReport
			compareConflicts(holds, c.findings, &got)
			if got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestHoldsOfTheStrongChainMustNotOverlap(t *testing.T) {
	k := key(t, "k")
	of := func(chain string) *hold {
		h := held(k, 0, time.Second)
		h.chain = chain
		return h
	}
	if n := strongOverlaps([]*hold{of("order"), of("order")}); n != 1 {
		t.Errorf("%d overlaps of two strong holds", n)
	}
	if n := strongOverlaps([]*hold{of("order"), of("coupon"), of("coupon")}); n != 0 {
		t.Errorf("%d overlaps of one strong hold", n)
	}
}
