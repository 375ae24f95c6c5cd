package incident

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile"
)

// evil is what an attacker would put into a key's business id, a reason or a name.
const evil = `<script>alert(1)</script>"'>&=1+1`

// sample is a report with something in every list, and evil in every text that others
// write.
func sample(tb testing.TB) *Report {
	tb.Helper()
	hold := func(event, holder, producer string, tier tierlock.Tier, from, last time.Duration) reconcile.Interval {
		return reconcile.Interval{
			Event: event, Chain: "coupon", Key: key(tb, "u1"), Holder: holder, Tier: tier, Store: tier.String(), Producer: producer, Epoch: 1,
			GrantedAt: at(from), EndedAt: at(from + last), Latest: at(from + last), TTL: 10 * time.Second, Error: 20 * time.Millisecond,
			How: audit.Released, Outcome: audit.Committed, Switch: audit.Switch{Version: 7, Reason: evil},
			Business: audit.Business{Type: "coupon", ID: evil, Op: evil, Delta: 2}, AcquireSeq: 3, EndSeq: 9,
		}
	}
	r := &Report{
		From: begin, To: at(30 * time.Minute), At: at(40 * time.Minute), Author: "kim " + evil, FourEyes: true,
		Requests:   []Requests{{Chain: "coupon", Tier: tierlock.Bypass, Granted: 7, Released: 5, Expired: 1, Untold: 1, Committed: 4, RolledBack: 1}},
		Refused:    []Refused{{Chain: "order", Answer: "system_error " + evil, Count: 3}},
		Optimistic: []Optimistic{{Chain: "order", Reason: tierlock.Reason(evil), Answers: 4, Committed: 2, RolledBack: 1, Untold: 1}},
		Orders: []Order{
			{Version: 7, First: at(0), Last: at(time.Minute), Processes: 2},
			{Version: 7, Chain: "coupon", Reason: evil, First: at(0), Last: at(time.Minute), Grants: 7, Bypass: 7, Processes: 2},
		},
		Degraded: []Stretch{{Chain: "coupon", Producer: evil, Tier: "bypass", From: at(0), To: at(time.Minute)}},
		Health:   []Health{{At: at(time.Second), Chain: "coupon", Producer: evil, Target: evil, From: "normal", To: "down", Reason: tierlock.Reason(evil)}},
		Conflicts: []Conflict{{
			ID: "f1", State: reconcile.StateDryRun, Where: Both, Chain: "coupon", Key: key(tb, "u1"), Certain: true, Causes: []reconcile.Cause{reconcile.CauseBypass},
			Holds: 3, Pairs: 2, CertainPairs: 1, Depth: 2, From: at(0), To: at(time.Second), Business: []string{"coupon:" + evil},
			Repairs: []reconcile.Repair{{Key: "k1", Loser: "shop-2/1/3", Result: reconcile.ResultWould, Wrong: 2, Error: evil}},
			Members: []reconcile.Interval{
				hold("shop-1/1/3", "aaaaaaaaaaaaaaaa", "shop-1", tierlock.Bypass, 0, time.Second),
				hold("shop-2/1/3", evil, evil, tierlock.Local, 300*time.Millisecond, 500*time.Millisecond),
			},
		}},
		Records: []Record{
			{
				Type: "coupon", ID: evil, Chains: []string{"coupon"}, Keys: []string{"biz:coupon:lock:u1"}, Holders: []string{"aaaaaaaaaaaaaaaa", evil}, Holds: 2,
				Bypass: 1, Local: 1, Delta: 4, First: at(0), Last: at(time.Second), Conflicts: []string{"f1"}, AtRisk: 2, Check: Wrong, Wrong: 2, Action: evil, Owner: evil,
				Hand: []Hand{{At: at(35 * time.Minute), By: evil, Owner: evil, Action: evil}},
			},
			{Type: "stock", ID: "=cmd()", Chains: []string{}, Keys: []string{}, Holders: []string{}, Conflicts: []string{}, Holds: 1, Shared: 1, First: at(0), Last: at(0), Check: Failed, Error: evil, Action: "", Owner: Unassigned},
		},
		Amounts: []Amount{{Type: "coupon", AtRisk: 2, NoDelta: 1, Repaired: 3, Open: 2}},
		Certificate: Certificate{
			Partitions: []Partition{{Partition: 0, Oldest: 5, From: 17, To: 99, Begins: at(-time.Minute), Records: 82}},
			Producers:  []Producer{{Producer: evil, Epochs: []uint64{1}, First: at(-time.Minute), Last: at(time.Hour), Events: 80, Versions: []uint64{7}, Policies: []string{evil}}},
			Gaps: []Gap{{
				Gap: reconcile.Gap{Partition: 0, Producer: evil, Epoch: 1, Cause: "sequence", From: 40, To: 40, At: at(time.Minute)}, Earliest: at(0), Latest: at(time.Minute), Bypass: true,
				Note: "these seqs never came",
			}},
			Tails:     []Tail{{Producer: evil, Epoch: 1, Told: at(time.Minute), Oldest: at(0), Partitions: []int{0}, Note: "not sealed"}},
			Unknown:   []string{evil},
			Malformed: []Malformed{{0, 50, evil}}, Unreadable: 2, Blind: []string{evil}, Unlisted: 4, Longest: 600_000,
		},
	}
	r.sum()
	return r
}

func newKey(tb testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	tb.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return pub, key
}

// signed is the sample through all of its life.
func signed(tb testing.TB, key ed25519.PrivateKey) *Document {
	tb.Helper()
	d := New(sample(tb))
	for _, err := range []error{d.Review("ana", at(50*time.Minute)), d.Review("bo", at(51*time.Minute)), d.Sign("cy", at(52*time.Minute), key)} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	return d
}

func encode(tb testing.TB, d *Document) []byte {
	tb.Helper()
	text, err := d.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func TestALifeFromDraftToSignature(t *testing.T) {
	pub, key := newKey(t)
	other, _ := newKey(t)
	d := signed(t, key)
	back, err := Parse(encode(t, d))
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Verify(other, pub); err != nil {
		t.Error(err)
	}
	if err := back.Verify(other); err == nil {
		t.Error("another key verifies it")
	}
	if !bytes.Equal(encode(t, back), encode(t, d)) {
		t.Error("read and written again, it is another text")
	}
}

func TestStepsOutOfOrderAreRefused(t *testing.T) {
	_, key := newKey(t)
	now := at(time.Hour)
	refused := func(what, field string, err error) {
		t.Helper()
		faults := tierlock.Invalids(err)
		if len(faults) != 1 || faults[0].Field != field {
			t.Errorf("%s: %v, want a fault of %s", what, err, field)
		}
	}
	d := New(sample(t))
	refused("sign a draft", "stage", d.Sign("cy", now, key))
	refused("verify a draft", "stage", d.Verify())
	refused("review by nobody", "by", d.Review("", now))
	refused("review by the author alone", "by", d.Review("KIM "+evil, now))
	if err := d.Review("ana", now); err != nil {
		t.Fatal(err)
	}
	refused("review twice", "by", d.Review("Ana", now))
	refused("assign in a frozen one", "stage", d.Assign("coupon", evil, Hand{By: "ana", Owner: "x"}))
	refused("verify what is not signed", "stage", d.Verify())
	if err := d.Sign("cy", now, key); err != nil {
		t.Fatal(err)
	}
	refused("review a signed one", "stage", d.Review("bo", now))
	refused("sign twice", "stage", d.Sign("cy", now, key))
	if err := New(sample(t)).Sign("cy", now, nil); err == nil {
		t.Error("signed without a key")
	}

	alone := New(sample(t))
	alone.Report.FourEyes = false
	if err := alone.Review(alone.Report.Author, now); err != nil {
		t.Errorf("an author may review where four eyes are not asked for: %v", err)
	}
}

func TestADraftIsAssignedAndSettled(t *testing.T) {
	d := New(sample(t))
	was := d.Report.Total.Open
	now := at(time.Hour)
	for what, err := range map[string]error{
		"record": d.Assign("coupon", "nobody", Hand{By: "ana", Owner: "x"}),
		"by":     d.Assign("coupon", evil, Hand{Owner: "x"}),
		"action": d.Assign("coupon", evil, Hand{By: "ana", Settled: true}),
		"owner":  d.Assign("coupon", evil, Hand{By: "ana", Owner: "two\nlines"}),
	} {
		if faults := tierlock.Invalids(err); len(faults) != 1 || faults[0].Field != what {
			t.Errorf("%v, want a fault of %s", err, what)
		}
	}
	if err := d.Assign("coupon", evil, Hand{At: now, By: "ana", Owner: "growth team", Action: "voucher sent", Settled: true}); err != nil {
		t.Fatal(err)
	}
	r := d.Report
	// The record and the conflict it was in.
	if r.Total.Open != was-2 || r.Conflicts[0].Open || r.Amounts[0].Open != 0 || r.Records[0].Owner != "growth team" || r.Records[0].Action != "voucher sent" || len(r.Records[0].Hand) != 2 {
		t.Errorf("open %d, was %d; %+v", r.Total.Open, was, r.Records[0])
	}
	if _, err := Parse(encode(t, d)); err != nil {
		t.Error(err)
	}
}

// TestEveryFieldIsSealed flips every value of a frozen report, one at a time, as somebody
// with an editor would who keeps it well-formed: none passes.
func TestEveryFieldIsSealed(t *testing.T) {
	pub, key := newKey(t)
	reviewed := New(sample(t))
	if err := reviewed.Review("ana", at(50*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*Document{string(Reviewed): reviewed, string(Signed): signed(t, key)} {
		var tree any
		dec := json.NewDecoder(bytes.NewReader(encode(t, d)))
		dec.UseNumber()
		if err := dec.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		n := 0
		flip(tree, func(path string) {
			if n++; name == string(Signed) && n%7 != 0 && strings.HasPrefix(path, ".report.") {
				return // the reviewed one has all of them already
			}
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if passes(text, name, pub) {
				t.Errorf("%s: %s was changed, and nobody noticed", name, path)
			}
		})
		if n < 250 {
			t.Errorf("%s: only %d values were flipped", name, n)
		}
	}
}

// passes tells whether somebody takes text for a report of that stage, without a look at its
// bytes: what it says must give it away, not how it is written.
func passes(text []byte, stage string, pub ed25519.PublicKey) bool {
	d := &Document{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if dec.Decode(d) != nil {
		return false
	}
	if d.Format != Format || d.Report == nil || d.coherent() != nil || string(d.Stage) != stage {
		return false
	}
	return stage != string(Signed) || d.Verify(pub) == nil
}

// flip changes each leaf of a JSON tree in turn, calls then, and changes it back.
func flip(v any, then func(path string)) { flipAt("", v, func(any) {}, then) }

func flipAt(path string, v any, set func(any), then func(string)) {
	try := func(to any) {
		set(to)
		then(path)
		set(v)
	}
	switch x := v.(type) {
	case map[string]any:
		for name, was := range x {
			flipAt(path+"."+name, was, func(to any) { x[name] = to }, then)
		}
	case []any:
		for i, was := range x {
			flipAt(fmt.Sprintf("%s[%d]", path, i), was, func(to any) { x[i] = to }, then)
		}
		if len(x) > 0 {
			try(x[:len(x)-1])
		}
	case string:
		try(flipped(x))
	case json.Number:
		try(json.Number(strings.TrimPrefix(x.String(), "0") + "1"))
	case bool:
		try(!x)
	}
}

// flipped is another value of the same kind.
func flipped(s string) string {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.Add(time.Second).Format(time.RFC3339Nano)
	}
	for from, to := range map[string]string{"shared": "local", "local": "bypass", "bypass": "shared", "draft": "signed", "reviewed": "draft", "signed": "reviewed"} {
		if s == from {
			return to
		}
	}
	if s == "" {
		return "x"
	}
	last := s[len(s)-1]
	if last == 'a' {
		return s[:len(s)-1] + "b"
	}
	return s[:len(s)-1] + "a"
}

func TestAFrozenReportIsTheVeryBytes(t *testing.T) {
	_, key := newKey(t)
	text := string(encode(t, signed(t, key)))
	for name, other := range map[string]string{
		"a space":           strings.Replace(text, `"stage": `, `"stage":  `, 1),
		"no last newline":   strings.TrimSuffix(text, "\n"),
		"something behind":  text + "{}",
		"a doubled field":   strings.Replace(text, `"granted": 7`, `"granted": 1, "granted": 7`, 1),
		"an unknown field":  strings.Replace(text, `"stage": `, `"note": "x", "stage": `, 1),
		"one inside a hold": strings.Replace(text, `"event": `, `"note": "x", "event": `, 1),
	} {
		if other == text {
			t.Fatalf("%s: the test changes nothing", name)
		}
		if _, err := Parse([]byte(other)); err == nil {
			t.Errorf("%s goes unnoticed", name)
		}
	}
	for _, text := range []string{"", "{}", "[]", `{"format":"x"}`, "null"} {
		if _, err := Parse([]byte(text)); len(tierlock.Invalids(err)) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
}
