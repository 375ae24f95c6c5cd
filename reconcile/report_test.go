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
