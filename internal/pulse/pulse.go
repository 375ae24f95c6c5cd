// Package pulse FEELS whether this process gets to run: a goroutine that wants to wake every
// two milliseconds, and takes down when it could not. A machine with more to do than it can
// is no fault of whoever answers late on it, so tests of deadlines take that time off.
package pulse

import (
	"sync"
	"time"
)

const step = 2 * time.Millisecond

// Pulse is one watch over this process, from Start to Stop.
type Pulse struct {
	stop chan struct{}
	done chan struct{}

	mu   sync.Mutex
	gaps []gap     // guarded by mu
	last time.Time // of the last beat; guarded by mu
}

type gap struct{ from, to time.Time }

// Start begins to watch.
func Start() *Pulse {
	p := &Pulse{stop: make(chan struct{}), done: make(chan struct{}), last: time.Now()}
	go p.beat()
	return p
}

// Stop ends the watch.
func (p *Pulse) Stop() {
	close(p.stop)
	<-p.done
}

func (p *Pulse) beat() {
	defer close(p.done)
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		now := time.Now()
		if now.Sub(p.last) > 2*step {
			p.gaps = append(p.gaps, gap{p.last.Add(step), now})
		}
		p.last = now
		p.mu.Unlock()
	}
}

// Stalled is how much of the time between from and to the process did not run.
func (p *Pulse) Stalled(from, to time.Time) (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.gaps) - 1; i >= 0 && p.gaps[i].to.After(from); i-- {
		sum += p.gaps[i].within(from, to)
	}
	if to.Sub(p.last) > 2*step { // one that has not ended
		sum += gap{p.last.Add(step), to}.within(from, to)
	}
	return sum
}

func (g gap) within(from, to time.Time) time.Duration {
	if g.from.After(from) {
		from = g.from
	}
	if g.to.Before(to) {
		to = g.to
	}
	return max(0, to.Sub(from))
}
