package reconcile

import (
	"slices"
	"time"
)

// mostTold bounds how many findings a partition remembers to have given out, less than a
// kilobyte each. One that is forgotten is given out again when its partition is read again,
// which changes nothing where it is stored; its check then runs once more. To withdraw it,
// the stores are asked, as for those of an earlier life.
const mostTold = 20_000

// forget drops the older half of what was told once that is more than most. What is in
// doubt stays: it is just being found again.
func (w *window) forget(most int) {
	if len(w.told)-w.doubts <= most {
		return
	}
	ends := make([]time.Time, 0, len(w.told))
	for _, t := range w.told {
		if !t.doubt {
			ends = append(ends, t.finding.To)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	middle := ends[len(ends)/2]
	for id, t := range w.told {
		if !t.doubt && !t.finding.To.After(middle) {
			delete(w.told, id)
		}
	}
}

// again has the partition read once more, as a late event would.
func (w *window) again(now time.Time) {
	if w.lateSince.IsZero() {
		w.lateSince = now
	}
}
