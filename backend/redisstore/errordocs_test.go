package redisstore

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

// docs/redis-errors.md has a row for each reply that the table of replies knows and for
// each other error that fault tells apart, with the outcomes that policy makes of them.
func TestErrorsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/redis-errors.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, r := range replies {
		want["`"+strings.TrimSpace(r.prefix)+"`"] = "`" + string(r.reason) + "`" + outcomes(r.reason)
	}
	for _, c := range faultCases {
		if !answered(c.err) {
			want[c.name] = "`" + string(c.reason) + "` | " + map[bool]string{sure: "no", doubt: "yes"}[c.inDoubt] + outcomes(c.reason)
		}
	}
	if len(want) < 30 {
		t.Fatalf("%d errors known", len(want))
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 6 || strings.HasPrefix(line, "|---") {
			continue
		}
		name := strings.TrimSpace(cells[0])
		if name == "reply" || name == "what happens" {
			continue
		}
		said := strings.TrimSpace(strings.Join(cells[1:], " | "))
		if strings.HasPrefix(name, "`") {
			said = strings.TrimSpace(strings.Join(cells[2:], " | ")) // the second cell tells when
		}
		if said != want[name] {
			t.Errorf("%s: the page says %q, the code %q", name, said, want[name])
		}
		delete(want, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("the page lacks %s: %s", name, want[name])
	}
}

// outcomes is what the request that meets reason first is told, on a strong chain, one with
// a version guard and a weak one, as the page writes it.
func outcomes(reason tierlock.Reason) string {
	strong, guarded, weak := degrade.Strong(), degrade.Strong(), degrade.Weak()
	guarded.VersionGuard = true
	var out string
	for _, p := range []*degrade.Policy{&strong, &guarded, &weak} {
		out += " | " + outcome(p, reason)
	}
	return out
}

func outcome(p *degrade.Policy, reason tierlock.Reason) string {
	verdict := p.Refusal(reason)
	if reason == tierlock.ReasonDown { // certain at the first: the request asks the ladder again
		now := time.Now()
		m, _, _ := degrade.Start(now).Step(p, degrade.Signals{At: now, Refused: true})
		route := degrade.Decide(p, nil, &m, now, 0)
		if route.Tier == tierlock.Local {
			return "local"
		}
		verdict = route.Verdict
	}
	switch verdict.Advice {
	case tierlock.AdviseOptimistic:
		return "optimistic"
	case 0:
		return verdict.Outcome.String() + ", no advice"
	}
	return verdict.Outcome.String()
}
