package gatewaytest

import (
	"slices"
	"strings"

	"github.com/tierlock/tierlock/audit"
)

// Trail tells the recorded events in words, in order, one line for each:
//
//	acquire shared biz:order:lock:1
//	end shared released committed biz:order:lock:1
//	acquire local (down) biz:coupon:lock:1
//	optimistic (slow) committed biz:order:lock:1
func (a *Audit) Trail() []string {
	events := a.Events()
	lines := make([]string, len(events))
	for i := range events {
		lines[i] = line(&events[i])
	}
	return lines
}

func line(ev *audit.Event) string {
	words := []string{string(ev.Type)}
	if ev.Type != audit.TypeOptimistic {
		words = append(words, ev.Tier.String())
	}
	if ev.Reason != "" && ev.Type != audit.TypeEnd {
		words = append(words, "("+string(ev.Reason)+")")
	}
	if ev.Type == audit.TypeEnd {
		words = append(words, string(ev.How))
	}
	if ev.Type != audit.TypeAcquire {
		words = append(words, string(ev.Outcome))
	}
	return strings.Join(append(words, ev.Key.String()), " ")
}

// Recorded fails the test unless the trail is exactly what want says, in the words of
// [Audit.Trail].
func (k *Kit) Recorded(want ...string) {
	k.tb.Helper()
	if got := k.Audit.Trail(); !slices.Equal(got, want) {
		k.tb.Errorf("recorded\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
