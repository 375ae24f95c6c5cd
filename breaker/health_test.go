package breaker

import (
	"testing"
	"time"
)

// Whoever looks first after a stall looks before anything has noted that the process runs
// again: the silence counts up to when it was last seen to run, and a little more.
func TestALookRightAfterAStallCountsNoSilenceOfIt(t *testing.T) {
	began := time.Now()
	h := health{silent: began, probing: true, ran: began.Add(400 * time.Millisecond)}
	if d := h.unanswered(began.Add(500 * time.Millisecond)); d != 500*time.Millisecond {
		t.Errorf("%v while it runs", d)
	}
	woke := began.Add(5 * time.Second)
	if d := h.unanswered(woke); d >= time.Second {
		t.Errorf("%v right after a stall of 4.6 s", d)
	}
	h.runs(woke)
	if d := h.unanswered(woke); d >= time.Second {
		t.Errorf("%v once that is noted", d)
	}
	if d := h.unanswered(woke.Add(300 * time.Millisecond)); d < 750*time.Millisecond {
		t.Errorf("%v: silence since counts no more", d)
	}
}
