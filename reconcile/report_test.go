package reconcile

import (
	"strings"
	"testing"
)

func TestTheTextTellsWhatADryRunWouldRepair(t *testing.T) {
	r := Report{DryRun: true, Repairs: map[Result]int{ResultWould: 3, ResultClean: 2}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"dry run", "     2  clean\n", "     3  would\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

func TestTheTextClaimsNothingOfNothing(t *testing.T) {
	for _, c := range []struct {
		records uint64
		want    string
	}{
		{0, "complete     nothing was read\n"}, {1, "complete     yes: every event of every producer was seen\n"},
	} {
		r := Report{Complete: true, Stats: Stats{Records: c.records}}
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), c.want) {
			t.Errorf("%d records:\n%s", c.records, &b)
		}
	}
}

func TestTheTextTellsWhatWaitingIsFor(t *testing.T) {
	const hint = "what waits is done later, once its chain has been quiet, its lock is free and the caps allow"
	for _, c := range []struct {
		r    Report
		told bool
	}{
		{Report{Stats: Stats{Waiting: 2}}, true}, {Report{}, false}, {Report{DryRun: true, Stats: Stats{Waiting: 2}}, false},
	} {
		var b strings.Builder
		if err := c.r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), hint) != c.told {
			t.Errorf("waiting %d, dry run %v:\n%s", c.r.Waiting, c.r.DryRun, &b)
		}
	}
}
