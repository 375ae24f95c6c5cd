package pulse

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStalledAddsUpTheGaps(t *testing.T) {
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	p := &Pulse{gaps: []gap{{at(10), at(20)}, {at(30), at(50)}}, last: at(60)}
	for _, c := range []struct{ from, to, want int }{
		{0, 100, 10 + 20 + 38}, {0, 60, 30}, {15, 40, 15}, {20, 30, 0}, {35, 36, 1}, {58, 63, 0}, {70, 80, 10},
	} {
		if got := p.Stalled(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("%d to %d: %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
}

// A process that gets to run has no gap of the length of an attempt; what it sleeps through
// by its own will is none.
func TestPulseBeats(t *testing.T) {
	p := Start()
	from := time.Now()
	<-time.After(50 * time.Millisecond)
	to := time.Now()
	p.Stop()
	if got := p.Stalled(from, to); got > to.Sub(from) {
		t.Errorf("%v of %v", got, to.Sub(from))
	}
	if p.last.Before(from) {
		t.Error("it does not beat")
	}
}
