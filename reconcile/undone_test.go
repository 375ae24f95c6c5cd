package reconcile

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// What of a record may be given back when some of its holds were rolled back.
func TestRolledBackNeitherWinsNorLoses(t *testing.T) {
	hooks := map[string]Hook{"coupon": {}}
	hold := func(holder string, from int, id string, outcome audit.Work) Interval {
		iv := at(t, holder, tierlock.Bypass, "p-"+holder, from, from+100)
		iv.Outcome = outcome
		if id != "" {
			iv.Business = audit.Business{Type: "coupon", ID: id}
		}
		return iv
	}
	const yes, no, unsaid = audit.Committed, audit.RolledBack, audit.Unknown
	for name, c := range map[string]struct {
		holds []Interval
		state State
		risk  int
		lose  []string
	}{
		"both stand":             {[]Interval{hold("a", 0, "u", yes), hold("b", 10, "u", yes)}, StateOpen, 1, []string{"b"}},
		"nobody said":            {[]Interval{hold("a", 0, "u", unsaid), hold("b", 10, "u", "")}, StateOpen, 1, []string{"b"}},
		"the first went back":    {[]Interval{hold("a", 0, "u", no), hold("b", 10, "u", yes)}, StateHarmless, 0, nil},
		"the second went back":   {[]Interval{hold("a", 0, "u", yes), hold("b", 10, "u", no)}, StateHarmless, 0, nil},
		"both went back":         {[]Interval{hold("a", 0, "u", no), hold("b", 10, "u", no)}, StateHarmless, 0, nil},
		"the first of three":     {[]Interval{hold("a", 0, "u", no), hold("b", 10, "u", yes), hold("c", 20, "u", yes)}, StateOpen, 1, []string{"c"}},
		"the second of three":    {[]Interval{hold("a", 0, "u", yes), hold("b", 10, "u", no), hold("c", 20, "u", yes)}, StateOpen, 1, []string{"c"}},
		"one that names nothing": {[]Interval{hold("a", 0, "u", no), hold("b", 10, "u", yes), hold("c", 20, "", yes)}, StateOpen, 1, []string{"b"}},
		"one alone with nobody":  {[]Interval{hold("a", 0, "u", no), hold("b", 10, "", yes), hold("c", 20, "", yes)}, StateOpen, 1, nil},
	} {
		found := Overlaps(Rule{}, c.holds)
		if len(found) != 1 || len(found[0].Members) != len(c.holds) || !found[0].Certain || found[0].State != c.state || found[0].AtRiskPairs != c.risk ||
			!slices.Equal(found[0].Causes, []Cause{CauseBypass}) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		var lose []string
		for _, k := range found[0].Cases(hooks) {
			lose = append(lose, k.Loser.Holder)
		}
		if !slices.Equal(lose, c.lose) {
			t.Errorf("%s: %v lose, want %v", name, lose, c.lose)
		}
	}
}

// A part of a chain is harmless only where the whole chain is: a pair may lie over two parts.
func TestPartsOfAChainAreHarmlessTogether(t *testing.T) {
	var holds []Interval
	for i, outcome := range []audit.Work{audit.RolledBack, audit.Committed, audit.Committed, audit.RolledBack} {
		iv := at(t, string(rune('a'+i)), tierlock.Bypass, string(rune('p'+i)), i*50, i*50+70)
		iv.Outcome = outcome
		holds = append(holds, iv)
	}
	for _, all := range [][]Interval{holds, holds[:2]} {
		found := Overlaps(Rule{Group: 2}, all)
		want := map[int]State{4: StateOpen, 2: StateHarmless}[len(all)]
		if len(found) != len(all)/2 {
			t.Fatalf("%d parts", len(found))
		}
		for _, f := range found {
			if f.State != want {
				t.Errorf("part %d of %d holds is %s, %d pairs at risk", f.Part, len(all), f.State, f.AtRiskPairs)
			}
		}
	}
}

// A harmless finding is told, and nothing is checked for it.
func TestHarmlessIsNotChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		led := newLedger()
		led.claims["u1-c1"] = 2
		l := runLive(t, func(c *Config) { c.Hooks = map[string]Hook{"coupon": led.hook()} })
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		conflictOf(t, p, q, audit.RolledBack)
		pass(10*time.Second, sharedTiers, p, q)
		synctest.Wait()
		got := l.store.standing(KindOverlap)
		if len(got) != 1 || got[0].State != StateHarmless || led.checks != 0 {
			t.Fatalf("%d checks, %+v", led.checks, got)
		}
		if r := l.job.Report(); r.Findings != 1 || r.States[StateHarmless] != 1 || r.Waiting != 0 {
			t.Errorf("%+v", r)
		}
	})
}
