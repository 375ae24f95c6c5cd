package reconcile

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// The two promises of the rule, against every pair of random histories whose clocks are
// wrong within their bounds: certain is never wrong, and no real overlap of more than 1 ms
// is missed.
func TestCertainIsNeverWrongAndNothingIsMissed(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		all := history(t, rng, 120, 4, false)
		findings := Overlaps(Rule{}, intervals(all))
		byHolder := map[string]*truth{}
		for i := range all {
			byHolder[all[i].seen.Holder] = &all[i]
		}
		for _, f := range findings {
			if f.Certain && !realPair(f, byHolder) {
				t.Fatalf("seed %d: %s is certain and no two of its %d holds were inside together", seed, f.ID, len(f.Members))
			}
		}
		pairs := together(findings)
		for i := range all {
			for j := range i {
				a, b := &all[i], &all[j]
				if a.seen.Key == b.seen.Key && a.overlap(b) > time.Millisecond && !pairs[[2]string{a.seen.Holder, b.seen.Holder}] {
					t.Fatalf("seed %d: %s (%v) and %s (%v) were inside together for %v and are in no finding",
						seed, a.seen.Holder, a.seen.Tier, b.seen.Holder, b.seen.Tier, a.overlap(b))
				}
			}
		}
	}
}

func realPair(f Finding, by map[string]*truth) bool {
	for i := range f.Members {
		for j := range i {
			if by[f.Members[i].Holder].overlap(by[f.Members[j].Holder]) > 0 {
				return true
			}
		}
	}
	return false
}

// The sweep against the rule asked for every pair: same groups, same counts.
func TestSweepAgreesWithEveryPair(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 11))
		all := intervals(history(t, rng, 100, 2, true))
		rule := Rule{}.withDefaults()
		pairs, certains, risky := 0, 0, 0
		for i := range all {
			for j := range i {
				if all[i].Key != all[j].Key {
					continue
				}
				switch rule.relate(&all[i], &all[j]) {
				case apart:
					continue
				case certain:
					certains++
				}
				pairs++
				if all[i].Outcome != audit.RolledBack && all[j].Outcome != audit.RolledBack {
					risky++
				}
			}
		}
		gotPairs, gotCertain, gotRisky := 0, 0, 0
		for _, f := range Overlaps(Rule{}, all) {
			gotPairs += f.Pairs
			gotCertain += f.CertainPairs
			gotRisky += f.AtRiskPairs
			if f.Certain != (f.CertainPairs > 0) || len(f.Members) < 2 || f.Pairs < len(f.Members)-1 || (f.State == StateHarmless) != (f.AtRiskPairs == 0) {
				t.Fatalf("seed %d: finding %+v", seed, f)
			}
		}
		if gotPairs != pairs || gotCertain != certains || gotRisky != risky {
			t.Fatalf("seed %d: %d pairs, %d certain, %d at risk; one by one %d, %d, %d", seed, gotPairs, gotCertain, gotRisky, pairs, certains, risky)
		}
	}
}

func TestOrderOfHoldsDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := intervals(history(t, rng, 300, 5, true))
	want, _ := json.Marshal(Overlaps(Rule{}, all))
	for range 5 {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got, _ := json.Marshal(Overlaps(Rule{}, all)); string(got) != string(want) {
			t.Fatal("another order gave other findings")
		}
	}
}

// at makes a hold in milliseconds after base.
func at(tb testing.TB, holder string, tier tierlock.Tier, producer string, from, to int) Interval {
	iv := Interval{
		Event: producer + "/1/" + holder, Key: key(tb, "biz:coupon:lock:a"), Holder: holder, Tier: tier, Store: tier.String(), Producer: producer, Epoch: 1,
		GrantedAt: base.Add(time.Duration(from) * time.Millisecond), EndedAt: base.Add(time.Duration(to) * time.Millisecond),
		How: audit.Released, Error: time.Millisecond,
	}
	iv.Latest = iv.EndedAt
	return iv
}

func TestRelate(t *testing.T) {
	with := func(iv Interval, change func(*Interval)) Interval { change(&iv); return iv }
	open := func(iv *Interval) { iv.EndedAt, iv.How = time.Time{}, "" }
	for name, c := range map[string]struct {
		a, b Interval
		want relation
	}{
		"beyond both errors is certain":       {at(t, "a", tierlock.Bypass, "p", 0, 100), at(t, "b", tierlock.Bypass, "q", 50, 150), certain},
		"within the errors is possible":       {at(t, "a", tierlock.Bypass, "p", 0, 100), at(t, "b", tierlock.Bypass, "q", 99, 150), possible},
		"a gap within the errors too":         {at(t, "a", tierlock.Bypass, "p", 0, 100), at(t, "b", tierlock.Bypass, "q", 101, 150), possible},
		"a gap beyond them is none":           {at(t, "a", tierlock.Bypass, "p", 0, 100), at(t, "b", tierlock.Bypass, "q", 103, 150), apart},
		"no end event is never certain":       {with(at(t, "a", tierlock.Bypass, "p", 0, 100), open), at(t, "b", tierlock.Bypass, "q", 50, 80), possible},
		"a forced end is never certain":       {with(at(t, "a", tierlock.Bypass, "p", 0, 100), func(iv *Interval) { iv.How = audit.Forced }), at(t, "b", tierlock.Bypass, "q", 50, 80), possible},
		"an unknown error is never certain":   {with(at(t, "a", tierlock.Bypass, "p", 0, 9000), func(iv *Interval) { iv.Error = 0 }), at(t, "b", tierlock.Bypass, "q", 2000, 7000), possible},
		"a clock the store contradicts, too":  {with(at(t, "a", tierlock.Shared, "p", 0, 9000), token(5000)), at(t, "b", tierlock.Shared, "q", 2000, 7000), possible},
		"a token that agrees changes nothing": {with(at(t, "a", tierlock.Shared, "p", 0, 9000), token(-200)), at(t, "b", tierlock.Shared, "q", 2000, 7000), certain},
		"a token that is no time, neither":    {with(at(t, "a", tierlock.Shared, "p", 0, 9000), func(iv *Interval) { iv.Token = 17 }), at(t, "b", tierlock.Shared, "q", 2000, 7000), certain},
		"optimistic beside a hold":            {with(at(t, "a", tierlock.Optimistic, "p", 0, 100), commit(nil)), with(at(t, "b", tierlock.Shared, "q", 20, 70), commit(nil)), possible},
		"optimistic that did not commit":      {at(t, "a", tierlock.Optimistic, "p", 0, 100), with(at(t, "b", tierlock.Shared, "q", 20, 70), commit(nil)), apart},
		"optimistic that compared versions":   {with(at(t, "a", tierlock.Optimistic, "p", 0, 100), commit(ver(5))), with(at(t, "b", tierlock.Shared, "q", 20, 70), commit(ver(6))), apart},
		"optimistic from the same version":    {with(at(t, "a", tierlock.Optimistic, "p", 0, 100), commit(ver(5))), with(at(t, "b", tierlock.Shared, "q", 20, 70), commit(ver(5))), certain},
		"optimistic beside optimistic":        {with(at(t, "a", tierlock.Optimistic, "p", 0, 100), commit(nil)), with(at(t, "b", tierlock.Optimistic, "q", 20, 70), commit(nil)), apart},
		"optimistic inside one process":       {with(at(t, "a", tierlock.Optimistic, "p", 0, 100), commit(nil)), with(at(t, "b", tierlock.Shared, "p", 20, 70), commit(nil)), possible},
		"optimistic after it, in one process": {with(at(t, "a", tierlock.Optimistic, "p", 71, 100), commit(nil)), with(at(t, "b", tierlock.Shared, "p", 20, 70), commit(nil)), apart},
		"an unknown error is 500 ms":          {with(at(t, "a", tierlock.Bypass, "p", 0, 100), func(iv *Interval) { iv.Error = 0 }), at(t, "b", tierlock.Bypass, "q", 590, 800), possible},
		"a hand-over by the store is none":    {at(t, "a", tierlock.Shared, "p", 0, 100), at(t, "b", tierlock.Shared, "q", 100, 150), apart},
		"another store is no hand-over":       {at(t, "a", tierlock.Shared, "p", 0, 100), with(at(t, "b", tierlock.Shared, "q", 100, 150), func(iv *Interval) { iv.Store = "other" }), possible},
		"after an expiry it is no hand-over":  {with(at(t, "a", tierlock.Shared, "p", 0, 100), func(iv *Interval) { iv.How = audit.Expired }), at(t, "b", tierlock.Shared, "q", 100, 150), possible},
		"shared twice at once is certain":     {at(t, "a", tierlock.Shared, "p", 0, 100), at(t, "b", tierlock.Shared, "q", 50, 150), certain},
		"shared against local counts":         {at(t, "a", tierlock.Shared, "p", 0, 100), at(t, "b", tierlock.Local, "q", 50, 150), certain},
		"one host is two clocks":              {at(t, "a", tierlock.Local, "host-1", 0, 100), at(t, "b", tierlock.Local, "host-2", 99, 150), possible},
		"another epoch is another process":    {at(t, "a", tierlock.Local, "p", 0, 100), with(at(t, "b", tierlock.Local, "p", 99, 150), func(iv *Interval) { iv.Epoch = 2 }), possible},
	} {
		t.Run(name, func(t *testing.T) {
			rule := Rule{}.withDefaults()
			if got, back := rule.relate(&c.a, &c.b), rule.relate(&c.b, &c.a); got != c.want || back != c.want {
				t.Errorf("relate = %d, turned round %d; want %d", got, back, c.want)
			}
		})
	}
}

// token is the server's clock, ahead of the hold's own by so many milliseconds.
func token(ahead int) func(*Interval) {
	return func(iv *Interval) {
		iv.Token = tierlock.Token(iv.GrantedAt.Add(time.Duration(ahead) * time.Millisecond).UnixMicro())
	}
}

func ver(n int64) *int64 { return &n }

// commit has the work of a hold commit from a version of one record; nil: it compared none.
func commit(from *int64) func(*Interval) {
	return func(iv *Interval) {
		iv.Outcome, iv.Business = audit.Committed, audit.Business{Type: "stock", ID: "sku-7", Before: from}
	}
}

// Inside one process the seqs decide what a stepped clock would get wrong.
func TestRelateInsideOneProcess(t *testing.T) {
	seqs := func(iv Interval, acquire, end uint64) Interval { iv.AcquireSeq, iv.EndSeq = acquire, end; return iv }
	for name, c := range map[string]struct {
		a, b Interval
		want relation
	}{
		"together by a microsecond":              {seqs(at(t, "a", tierlock.Local, "p", 0, 100), 1, 3), seqs(at(t, "b", tierlock.Local, "p", 99, 150), 2, 4), certain},
		"one after the other":                    {seqs(at(t, "a", tierlock.Local, "p", 0, 100), 1, 2), seqs(at(t, "b", tierlock.Local, "p", 100, 150), 3, 4), apart},
		"clock stepped back between the two":     {seqs(at(t, "a", tierlock.Bypass, "p", 0, 100), 1, 2), seqs(at(t, "b", tierlock.Bypass, "p", 50, 90), 3, 4), apart},
		"clock stepped while both were in":       {seqs(at(t, "a", tierlock.Bypass, "p", 0, 100), 1, 3), seqs(at(t, "b", tierlock.Bypass, "p", 101, 150), 2, 4), possible},
		"the same where a table stood between":   {seqs(at(t, "a", tierlock.Local, "p", 0, 100), 1, 3), seqs(at(t, "b", tierlock.Local, "p", 101, 150), 2, 4), apart},
		"an expiry does not prove that one left": {seqs(expired(at(t, "a", tierlock.Local, "p", 0, 100), 200), 1, 2), seqs(at(t, "b", tierlock.Local, "p", 120, 150), 3, 4), possible},
	} {
		t.Run(name, func(t *testing.T) {
			rule := Rule{}.withDefaults()
			if got, back := rule.relate(&c.a, &c.b), rule.relate(&c.b, &c.a); got != c.want || back != c.want {
				t.Errorf("relate = %d, turned round %d; want %d", got, back, c.want)
			}
		})
	}
}

func expired(iv Interval, latest int) Interval {
	iv.How, iv.Latest = audit.Expired, base.Add(time.Duration(latest)*time.Millisecond)
	return iv
}

func TestCauses(t *testing.T) {
	with := func(iv Interval, change func(*Interval)) Interval { change(&iv); return iv }
	forget := func(iv *Interval) { iv.How, iv.TTL = audit.Lost, time.Second }
	seqs := func(acquire, end uint64) func(*Interval) {
		return func(iv *Interval) { iv.AcquireSeq, iv.EndSeq = acquire, end }
	}
	open := at(t, "a", tierlock.Shared, "p", 0, 100)
	open.EndedAt, open.How = time.Time{}, ""
	for name, c := range map[string]struct {
		a, b Interval
		want []Cause
	}{
		"bypass":          {at(t, "a", tierlock.Shared, "p", 0, 100), at(t, "b", tierlock.Bypass, "q", 10, 90), []Cause{CauseBypass}},
		"permits":         {at(t, "a", tierlock.Local, "p", 0, 100), at(t, "b", tierlock.Local, "p", 10, 90), []Cause{CausePermits}},
		"local elsewhere": {at(t, "a", tierlock.Local, "p", 0, 100), at(t, "b", tierlock.Local, "q", 10, 90), []Cause{CauseLocalElsewhere}},
		"expired":         {expired(at(t, "a", tierlock.Shared, "p", 0, 100), 200), at(t, "b", tierlock.Shared, "q", 110, 190), []Cause{CauseExpired}},
		"unreleased":      {open, at(t, "b", tierlock.Shared, "q", 10, 90), []Cause{CauseUnreleased}},
		"forgotten":       {with(at(t, "a", tierlock.Shared, "p", 0, 100), forget), at(t, "b", tierlock.Shared, "q", 50, 190), []Cause{CauseFailover}},
		"clock, by token": {with(at(t, "a", tierlock.Shared, "p", 0, 9000), token(5000)), at(t, "b", tierlock.Shared, "q", 10, 90), []Cause{CauseClock}},
		"clock, stepped":  {with(at(t, "a", tierlock.Bypass, "p", 0, 100), seqs(1, 3)), with(at(t, "b", tierlock.Bypass, "p", 101, 150), seqs(2, 4)), []Cause{CauseClock, CauseBypass}},
		"optimistic":      {with(at(t, "a", tierlock.Optimistic, "p", 0, 100), commit(nil)), with(at(t, "b", tierlock.Shared, "q", 20, 70), commit(nil)), []Cause{CauseOptimistic}},
		"unguarded write": {with(at(t, "a", tierlock.Local, "p", 0, 100), commit(ver(5))), with(at(t, "b", tierlock.Shared, "q", 20, 70), commit(ver(5))), []Cause{CauseUnguarded, CauseLocalElsewhere}},
		"failover":        {at(t, "a", tierlock.Shared, "p", 0, 100), at(t, "b", tierlock.Shared, "q", 10, 90), []Cause{CauseFailover}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Overlaps(Rule{}, []Interval{c.a, c.b})
			if len(got) != 1 || !slices.Equal(got[0].Causes, c.want) {
				t.Fatalf("findings %+v, want one with causes %s", got, c.want)
			}
		})
	}
}

func TestIgnoredTiersAreNotSeen(t *testing.T) {
	holds := []Interval{at(t, "a", tierlock.Shared, "p", 0, 100), at(t, "b", tierlock.Bypass, "q", 10, 90)}
	if got := Overlaps(Rule{}, holds); len(got) != 1 {
		t.Fatalf("%d findings", len(got))
	}
	if got := Overlaps(Rule{Ignore: []tierlock.Tier{tierlock.Bypass}}, holds); len(got) != 0 {
		t.Fatalf("a rule that ignores bypass found %+v", got)
	}
}

func TestOneHolderIsNoConflict(t *testing.T) {
	a, b := at(t, "a", tierlock.Bypass, "p", 0, 100), at(t, "a", tierlock.Bypass, "q", 10, 90)
	if got := Overlaps(Rule{}, []Interval{a, b}); len(got) != 0 {
		t.Fatalf("the same request id conflicts with itself: %+v", got)
	}
}

// A group beyond the cap is chained, and every pair is whole in one of its parts.
func TestLargeGroupsAreChained(t *testing.T) {
	var holds []Interval
	for i := range 25 {
		holds = append(holds, at(t, fmt.Sprintf("h%02d", i), tierlock.Bypass, fmt.Sprintf("p%d", i), 10*i, 10*i+25))
	}
	got := Overlaps(Rule{Group: 10}, holds)
	if len(got) != 3 || got[0].Part != 0 || got[1].Part != 2 || got[2].Part != 3 {
		t.Fatalf("%d parts", len(got))
	}
	pairs, in := 0, together(got)
	for _, f := range got {
		pairs += f.Pairs
	}
	rule := Rule{}.withDefaults()
	want := 0
	for i := range holds {
		for j := range i {
			if rule.relate(&holds[i], &holds[j]) != apart {
				want++
				if !in[[2]string{holds[i].Holder, holds[j].Holder}] {
					t.Errorf("%s and %s are in no part together", holds[i].Holder, holds[j].Holder)
				}
			}
		}
	}
	if pairs != want {
		t.Errorf("%d pairs in the parts, %d in all", pairs, want)
	}
	for _, f := range got[:2] {
		for _, g := range got {
			if slices.Contains(f.Supersedes(), g.ID) {
				t.Errorf("part %d takes in part %d", f.Part, g.Part)
			}
		}
	}
	if got[0].Depth != 3 {
		t.Errorf("depth %d, want 3", got[0].Depth)
	}
}

func TestEarlierMemberSupersedes(t *testing.T) {
	b, c := at(t, "b", tierlock.Bypass, "q", 50, 150), at(t, "c", tierlock.Bypass, "r", 60, 160)
	old := Overlaps(Rule{}, []Interval{b, c})[0]
	grown := Overlaps(Rule{}, []Interval{b, c, at(t, "a", tierlock.Shared, "p", 0, 100)})[0]
	if grown.ID == old.ID || !slices.Contains(grown.Supersedes(), old.ID) {
		t.Fatalf("old %s, new %s supersedes %v", old.ID, grown.ID, grown.Supersedes())
	}
}

func TestReplaces(t *testing.T) {
	f := func(revision int64, digest string, s State) *Finding {
		return &Finding{Revision: revision, Digest: digest, State: s}
	}
	for name, c := range map[string]struct {
		next, stored *Finding
		want         bool
	}{
		"a replay does not open what was repaired": {f(9, "d", StateOpen), f(5, "d", StateRepaired), false},
		"the same content moves forward":           {f(5, "d", StateRepaired), f(9, "d", StateDryRun), true},
		"and may be put twice":                     {f(5, "d", StateOpen), f(5, "d", StateOpen), true},
		"more knowledge replaces what was failed":  {f(9, "e", StateOpen), f(5, "d", StateFailed), true},
		"less knowledge does not":                  {f(4, "e", StateRepaired), f(5, "d", StateOpen), false},
		"nothing brings back what was superseded":  {f(5, "d", StateRepaired), f(5, "d", StateSuperseded), false},
	} {
		if got := c.next.Replaces(c.stored); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestFindingSurvivesJSON(t *testing.T) {
	f := Overlaps(Rule{}, []Interval{at(t, "a", tierlock.Shared, "p", 0, 100), at(t, "b", tierlock.Bypass, "q", 10, 90)})[0]
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Finding
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(back)
	if string(again) != string(text) || back.Members[1].Tier != tierlock.Bypass || back.Members[0].Error != time.Millisecond {
		t.Fatalf("%s\n%s", text, again)
	}
}

func BenchmarkOverlaps(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	all := intervals(history(b, rng, 100_000, 1_000, false))
	b.ReportAllocs()
	for b.Loop() {
		Overlaps(Rule{}, all)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(all)), "ns/hold")
}
