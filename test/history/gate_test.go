package history

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	seeds = 4
	// mostSeeds bounds the search for a history in which a defect shows: which goroutine is
	// first in a simulated moment is the scheduler's to say, so a seed does not fix it all.
	mostSeeds = 60
)

// A history of what is right is faulted by no check.
func TestSoundHistoriesPass(t *testing.T) {
	for seed := range uint64(seeds) {
		h := simulate(t, seed, sound)
		for _, fault := range Judge(h, WhileItRemembers...) {
			t.Errorf("seed %d: %s", seed, fault)
		}
		unknown := 0
		for _, op := range h.of("", Acquire, Renew, Release) {
			if op.Outcome == "" && op.Reason != "" {
				unknown++
			}
		}
		if unknown == 0 || h.Last["k0"] == 0 || len(h.of("", Renew)) == 0 || len(h.Ops) < 300 {
			t.Errorf("seed %d: %d operations, %d unknown, register at %d: the history says too little", seed, len(h.Ops), unknown, h.Last["k0"])
		}
	}
}

// A store that forgets, and is asked for nothing until those whom it forgot have stopped, makes no
// two meet and no token fall; the guard and the client keep what they always do.
func TestAHoldOffKeepsHoldersApart(t *testing.T) {
	for seed := range uint64(seeds) {
		h := simulate(t, seed, forgets)
		for _, fault := range Judge(h, append([]string{"overlaps", "tokens"}, Always...)...) {
			t.Errorf("seed %d: %s", seed, fault)
		}
		if waited := slices.DeleteFunc(h.of("", Acquire), func(op Op) bool { return op.Outcome != Unsent }); len(waited) == 0 {
			t.Errorf("seed %d: nobody had to wait: nothing was forgotten", seed)
		}
	}
}

// The mutation gate: every check finds its planted defect where it shows.
func TestEachCheckFindsItsDefect(t *testing.T) {
	for d, finders := range map[defect][]string{
		grantsTwice:    {"locks", "overlaps"},
		expiresEarly:   {"locks", "overlaps"},
		releasesAnyone: {"locks"},
		revives:        {"locks"},
		repeatsToken:   {"tokens"},
		lowersToken:    {"tokens"},
		leavesOrphans:  {"orphans"},
		answersLate:    {"late"},
		checksAtWrite:  {"registers", "updates"},
		forgetsMark:    {"registers"},
		grantsAtOnce:   {"overlaps"}, // others find that it forgets
	} {
		t.Run(string(d), func(t *testing.T) {
			found := map[string]int{}
			blind := func() []string {
				return slices.DeleteFunc(slices.Clone(finders), func(name string) bool { return found[name] > 0 })
			}
			seed := uint64(0)
			for ; seed < mostSeeds && (seed < seeds || len(blind()) > 0); seed++ {
				h := simulate(t, seed, d)
				for name := range Checks {
					if len(Judge(h, name)) > 0 {
						found[name]++
					}
				}
			}
			t.Logf("of %d histories: %v", seed, found)
			if left := blind(); len(left) > 0 {
				t.Errorf("%v found it in none of %d histories", left, seed)
			}
		})
	}
}

func TestEveryCheckIsInTheGateAndInAPlan(t *testing.T) {
	for name := range Checks {
		if !slices.Contains(WhileItRemembers, name) {
			t.Errorf("no plan runs %s", name)
		}
	}
	if faults := Judge(&History{}, "nonsense"); len(faults) != 1 || !strings.Contains(faults[0], "nonsense") {
		t.Errorf("a check that there is not: %v", faults)
	}
}

// Small histories whose verdict a person can see.
func TestSmallHistories(t *testing.T) {
	const ms = int64(time.Millisecond)
	grant := func(process int, holder string, call, end int64) Op {
		return Op{Process: process, ID: int(call), Kind: Acquire, Key: "k", Holder: holder, Call: call * ms, Return: end * ms, Outcome: Granted, TTL: 1000 * ms, Token: uint64(call), Tier: shared}
	}
	hold := func(holder string, from, to int64) Op {
		return Op{Process: 9, ID: int(from), Kind: Hold, Key: "k", Holder: holder, Call: from * ms, Return: to * ms, Tier: shared}
	}
	release := func(holder string, call, end int64, outcome Outcome) Op {
		return Op{Process: 8, ID: int(call), Kind: Release, Key: "k", Holder: holder, Call: call * ms, Return: end * ms, Outcome: outcome}
	}
	silent := func(holder string, call int64) Op {
		op := grant(7, holder, call, call+200)
		op.Outcome, op.Token = "", 0
		return op
	}
	held := func(holder string, call, end int64) Op {
		op := grant(6, holder, call, end)
		op.Outcome, op.Token = Held, 0
		return op
	}
	access := func(kind Kind, token uint64, value, call int64, outcome Outcome) Op {
		return Op{Process: 5, ID: int(call), Kind: kind, Key: "k", Token: token, Value: value, Call: call * ms, Return: (call + 1) * ms, Outcome: outcome}
	}
	for name, c := range map[string]struct {
		ops   []Op
		check string
		good  bool
	}{
		"a grant after the ttl":                     {[]Op{grant(1, "a", 1, 2), grant(2, "b", 1002, 1003)}, "locks", true},
		"a grant before the ttl":                    {[]Op{grant(1, "a", 1, 2), grant(2, "b", 900, 910)}, "locks", false},
		"a grant after the release":                 {[]Op{grant(1, "a", 1, 2), release("a", 5, 6, Released), grant(2, "b", 7, 8)}, "locks", true},
		"a grant beside the release":                {[]Op{grant(1, "a", 1, 2), release("a", 5, 9, Released), grant(2, "b", 6, 8)}, "locks", true},
		"a grant after a release without an answer": {[]Op{grant(1, "a", 1, 2), release("a", 5, 205, ""), grant(2, "b", 300, 301)}, "locks", true},
		"held by nobody":                            {[]Op{held("b", 5, 6)}, "locks", false},
		"held by one who got no answer":             {[]Op{silent("a", 1), held("b", 5, 6)}, "locks", true},
		"held by one who got no answer, for ever":   {[]Op{silent("a", 1), held("b", 2000, 2001)}, "locks", false},
		"held after the ttl":                        {[]Op{grant(1, "a", 1, 2), held("b", 1100, 1101)}, "locks", false},
		"released by another":                       {[]Op{grant(1, "a", 1, 2), release("b", 5, 6, Released)}, "locks", false},
		"one after the other":                       {[]Op{hold("a", 1, 10), hold("b", 10, 20)}, "overlaps", true},
		"one in the other":                          {[]Op{hold("a", 1, 100), hold("b", 10, 20), hold("c", 50, 60)}, "overlaps", false},
		"tokens of grants that were asked at once":  {[]Op{grant(1, "a", 5, 9), grant(2, "b", 4, 8)}, "tokens", true},
		"the highest token is not the last one":     {[]Op{grant(1, "a", 9, 10), grant(2, "b", 3, 4), {Process: 4, Kind: Acquire, Key: "k", Holder: "c", Call: 20 * ms, Return: 21 * ms, Outcome: Granted, Token: 8}}, "tokens", false},
		"a read of what was written":                {[]Op{access(Write, 1, 7, 1, Accepted), access(Read, 2, 7, 3, Accepted)}, "registers", true},
		"a read of what was not":                    {[]Op{access(Write, 1, 7, 1, Accepted), access(Read, 2, 6, 3, Accepted)}, "registers", false},
		"a stale write let through":                 {[]Op{access(Read, 2, 0, 1, Accepted), access(Write, 1, 1, 3, Accepted)}, "registers", false},
		"a fresh write refused":                     {[]Op{access(Read, 2, 0, 1, Accepted), access(Write, 2, 1, 3, Refused)}, "registers", false},
	} {
		t.Run(name, func(t *testing.T) {
			faults := Judge(&History{Ops: Merge(c.ops), Attempt: simAttempt}, c.check)
			if (len(faults) == 0) != c.good {
				t.Errorf("%s: %v", c.check, faults)
			}
		})
	}
}

// A killed process has no end of its hold: it holds until its ttl, and no longer.
func TestOrphansKnowTheKilled(t *testing.T) {
	const s = int64(time.Second)
	killed := Op{Kind: Acquire, Key: "k", Holder: "a", Call: 1 * s, Return: 1*s + 1, Outcome: Granted, TTL: 60 * s}
	for at, orphans := range map[int64]int{2 * s: 0, 60 * s: 0, 62 * s: 1} {
		h := &History{Ops: []Op{killed}, Stands: []Stand{{"k", "a", at}}}
		if faults := Orphans(h, grace); len(faults) != orphans {
			t.Errorf("at %v: %v", time.Duration(at), faults)
		}
	}
	given := []Op{killed, {ID: 1, Kind: Hold, Key: "k", Holder: "a", Call: 1 * s, Return: 2 * s}}
	for at, orphans := range map[int64]int{2 * s: 0, 4 * s: 1} {
		h := &History{Ops: given, Stands: []Stand{{"k", "a", at}}}
		if faults := Orphans(h, grace); len(faults) != orphans {
			t.Errorf("given back, at %v: %v", time.Duration(at), faults)
		}
	}
}

func TestMergeKeepsTheLineThatKnowsMore(t *testing.T) {
	call := Op{Process: 1, ID: 7, Kind: Write, Call: 10}
	done := call
	done.Return, done.Outcome = 20, Accepted
	got := Merge([]Op{call, done}, []Op{{Process: 2, ID: 7, Call: 5}}, []Op{{Process: 1, ID: 8, Call: 15}})
	if len(got) != 3 || got[0].Process != 2 || got[1].Outcome != Accepted || got[2].ID != 8 || got[2].Return != 0 {
		t.Errorf("%+v", got)
	}
}
