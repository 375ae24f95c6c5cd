package metrics

import (
	"slices"
	"strings"
	"testing"
)

// labels are all there may be: closed sets, so that no series grows with traffic.
var labels = []string{"chain", "store", "target", "tier", "outcome", "reason", "margin", "result", "status", "state", "from", "to", "mode", "kind", "certainty", "version", "go_version", "hash"}

func TestTableKeepsThePrometheusRules(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Table() {
		if seen[m.Name] {
			t.Errorf("%s stands twice", m.Name)
		}
		seen[m.Name] = true
		if !strings.HasPrefix(m.Name, "tierlock_") || strings.HasSuffix(m.Name, "_total") != (m.Kind == Counter) {
			t.Errorf("%s: want tierlock_…, and _total on counters only", m.Name)
		}
		if m.Help == "" || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: help %q is no sentence", m.Name, m.Help)
		}
		if (m.Kind == Histogram) != (len(m.Buckets) > 0) || !slices.IsSorted(m.Buckets) {
			t.Errorf("%s: %s with buckets %v", m.Name, m.Kind, m.Buckets)
		}
		if m.Kind == Histogram && !strings.HasSuffix(m.Name, "_seconds") && !strings.HasSuffix(m.Name, "_ratio") {
			t.Errorf("%s: a histogram is in seconds or a ratio", m.Name)
		}
		for _, l := range m.Labels {
			if !slices.Contains(labels, l) {
				t.Errorf("%s: label %s is none of %v", m.Name, l, labels)
			}
		}
	}
}

// TestThresholdsAreBucketBounds: a quantile is only exact at a bound, so an alert whose
// threshold lies between two would fire too early or too late.
func TestThresholdsAreBucketBounds(t *testing.T) {
	for name, thresholds := range map[string][]float64{
		acquireDuration: {.015, .05, .2, .22},
		holdRatio:       {.8, 1},
		spoolFsync:      {.015},
	} {
		for _, v := range thresholds {
			if !slices.Contains(row(name).Buckets, v) {
				t.Errorf("%s has no bound at %v", name, v)
			}
		}
	}
}

func TestTableIsTheCallersOwn(t *testing.T) {
	Table()[0].Labels[0] = "spoiled"
	if got := Table()[0].Labels[0]; got != "chain" {
		t.Errorf("label is %s after a caller wrote into its copy", got)
	}
}
