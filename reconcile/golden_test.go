package reconcile

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenFindings are one of every kind and shape that the job tells.
func goldenFindings(t *testing.T) map[string]Finding {
	n := int64(3)
	at := func(tb testing.TB, holder string, tier tierlock.Tier, producer string, from, to int) Interval {
		iv := at(tb, holder, tier, producer, from, to)
		iv.Chain = "coupon"
		return iv
	}
	full := func(holder string, tier tierlock.Tier, from int) Interval {
		iv := at(t, holder, tier, "shop-"+holder, from, from+100)
		iv.Token, iv.TTL, iv.AcquireSeq, iv.EndSeq, iv.Outcome = 1764496800123456, 15*time.Second, 4, 5, audit.Committed
		iv.Switch = audit.Switch{Version: 7, Reason: "store under attack"}
		iv.Business = audit.Business{Type: "coupon", ID: "u1-c1", Op: "claim", Delta: -1, Before: &n, After: &n}
		return iv
	}
	one := func(holds ...Interval) Finding {
		found := Overlaps(Rule{}, holds)
		if len(found) != 1 {
			t.Fatalf("%d findings", len(found))
		}
		found[0].Revision = 41
		return found[0]
	}
	open := full("c", tierlock.Local, 60)
	open.EndedAt, open.How, open.Outcome, open.EndSeq, open.Latest = time.Time{}, "", "", 0, open.GrantedAt.Add(15*time.Second)

	repaired := one(full("a", tierlock.Bypass, 0), full("b", tierlock.Bypass, 50), open)
	repaired.State = StateRepaired
	for i, r := range []Result{ResultApplied, ResultFailed} {
		repaired.Repairs = append(repaired.Repairs, Repair{
			Key: repairKey(&repaired.Members[i+1], "give_back"), Loser: repaired.Members[i+1].Event, Result: r, Wrong: 2,
			Error: []string{"", "no such table"}[i], By: []string{"anna", "bert"},
		})
	}
	waiting := repaired
	waiting.State, waiting.Repairs = StateWaiting, []Repair{{Key: repaired.Repairs[0].Key, Loser: repaired.Repairs[0].Loser, Result: ResultWaiting, Wrong: 2, Waits: "2 approvals"}}

	back := full("b", tierlock.Bypass, 50)
	back.Outcome = audit.RolledBack
	provisional := one(full("a", tierlock.Bypass, 0), at(t, "z", tierlock.Local, "far", 90, 200))
	provisional.Provisional, provisional.Awaited = true, []string{"far"}
	provisional.Digest = idOf(provisional.Digest, "provisional", "far")

	var crowd []Interval
	for i := range 9 {
		crowd = append(crowd, at(t, string(rune('a'+i)), tierlock.Bypass, "p-"+string(rune('a'+i)), 10*i, 10*i+500))
	}
	parts := Overlaps(Rule{Group: 5}, crowd)
	second := parts[1]
	second.Revision = 41
	brief := one(crowd...)
	brief.Repairs = []Repair{
		{Key: strings.Repeat("1", 32), Loser: "p/1/2", Result: ResultClean},
		{Key: strings.Repeat("2", 32), Loser: "p/1/3", Result: ResultClean},
		{Key: strings.Repeat("3", 32), Loser: "p/1/4", Result: ResultClean},
	}
	brief = brief.Brief(2, true)

	withdrawn := one(full("a", tierlock.Bypass, 0), full("b", tierlock.Bypass, 50)).shell()
	withdrawn.State, withdrawn.Digest, withdrawn.Revision = StateWithdrawn, "", 50
	superseded := one(full("b", tierlock.Bypass, 50), full("d", tierlock.Bypass, 60))
	superseded.State, superseded.By = StateSuperseded, repaired.ID

	other := full("e", tierlock.Shared, 50)
	other.Key = key(t, "biz:order:lock:9")
	split := SplitKeys(Rule{}, []Interval{full("a", tierlock.Shared, 0), other})[0]

	gap := Finding{
		ID: idOf("gap", "p"), Revision: 9, Kind: KindGap, State: StateOpen, Digest: idOf("gap"), From: base, To: base,
		Gap: &Gap{Partition: 3, Producer: "shop-1", Epoch: 2, Cause: causeSequence, From: 7, To: 9, Count: 3, At: base},
	}
	silent := Finding{
		ID: idOf("silent", "p"), Revision: 9, Kind: KindSilent, State: StateOpen, Digest: idOf("silent"), From: base, To: base,
		Gap: &Gap{Partition: 3, Producer: "shop-1", Epoch: 2, Cause: "silent", From: 12, At: base},
	}
	return map[string]Finding{
		"repaired": repaired, "waiting": waiting, "harmless": one(full("a", tierlock.Bypass, 0), back), "provisional": provisional, "part": second,
		"brief": brief, "withdrawn": withdrawn, "superseded": superseded, "split_key": split, "gap": gap, "silent": silent,
	}
}

// The golden findings are what readers of the topic and the table were promised; test/events
// holds them against the published schema. A change of them is a change of the format.
func TestGoldenFindings(t *testing.T) {
	dir := filepath.Join("testdata", "findings")
	all := goldenFindings(t)
	for name, f := range all {
		text, err := json.MarshalIndent(f, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
		file := filepath.Join(dir, name+".json")
		if *update {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(want, text) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
		var again Finding
		if err := json.Unmarshal(want, &again); err != nil || again.ID != f.ID || again.State != f.State || len(again.Members) != len(f.Members) {
			t.Errorf("%s read back: %+v, %v", file, again, err)
		}
	}
	// Whatever a finding can carry is in one of them.
	for i := range reflect.TypeFor[Finding]().NumField() {
		field := reflect.TypeFor[Finding]().Field(i)
		carried := false
		for _, f := range all {
			carried = carried || !reflect.ValueOf(f).Field(i).IsZero()
		}
		if !carried {
			t.Errorf("no golden finding has %s", field.Name)
		}
	}
}
