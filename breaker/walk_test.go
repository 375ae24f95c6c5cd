package breaker

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "replay the random walk with this seed; 0 draws new ones")

// TestWireWalk takes, gives, queues and leaves at random, and after each step compares the
// wire with a plain model: two counts and one list of those who wait. A failure prints the
// seed that replays it.
func TestWireWalk(t *testing.T) {
	if *seedFlag != 0 {
		walkWire(t, *seedFlag)
		return
	}
	for range 200 {
		walkWire(t, rand.Uint64()|1)
	}
}

func walkWire(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := newWire(1+rnd.IntN(8), rnd.Float64())
	check := func(ok bool, what string) {
		if !ok {
			t.Fatalf("%s; replay with -run TestWireWalk -seed %d\n%+v", what, seed, w)
		}
	}
	var waiting []*waiter // in the order of asking
	var weakOut, strongOut int
	room := func(weak bool) bool { // weak ones beyond their part, who were never refused, count for nobody
		return min(weakOut, w.weakLimit)+strongOut < w.limit && (!weak || weakOut < w.weakLimit)
	}
	count := func(weak bool, n int) {
		if weak {
			weakOut += n
		} else {
			strongOut += n
		}
	}
	for range 500 {
		weak := rnd.IntN(2) == 0
		switch rnd.IntN(5) {
		case 4: // one that is never refused
			w.add(weak, 1)
			count(weak, 1)
		case 0, 1: // ask, and wait if there is no room
			free := room(weak)
			check(w.take(weak) == free, "take disagrees")
			if free {
				count(weak, 1)
			} else {
				waiting = append(waiting, w.queue(weak, rnd.IntN(4) == 0))
			}
		case 2: // give one back: it goes to the oldest who may have it
			if weak && weakOut == 0 || !weak && strongOut == 0 {
				continue
			}
			w.give(weak)
			count(weak, -1)
			for {
				i := slices.IndexFunc(waiting, func(n *waiter) bool { return room(n.weak) })
				if i < 0 {
					break
				}
				oldest := waiting[i]
				check(oldest.granted && len(oldest.ready) == 1, "the oldest was passed over")
				count(oldest.weak, 1)
				check(w.leave(oldest), "granted and not granted")
				waiting = slices.Delete(waiting, i, i+1)
			}
		case 3: // one gives up
			if len(waiting) == 0 {
				continue
			}
			i := rnd.IntN(len(waiting))
			check(!w.leave(waiting[i]), "granted while the model has it waiting")
			waiting = slices.Delete(waiting, i, i+1)
		}
		check(w.out == weakOut+strongOut && w.weak == weakOut, "counts disagree")
		check(length(&w.strongs)+length(&w.weaks) == len(waiting), "lines disagree")
		for _, n := range waiting {
			check(!n.granted && len(n.ready) == 0, "granted out of turn")
			check(!room(n.weak), "waits beside a free slot")
		}
	}
	w.flush()
	for _, n := range waiting { // those who are forced stay in line
		check((len(n.ready) == 1) != n.forced && !w.leave(n), "flushed with a slot, or not as it should")
	}
	check(length(&w.strongs)+length(&w.weaks) == 0, "a line is left")
}

func length(l *line) (n int) {
	for w := l.front; w != nil; w = w.next {
		n++
	}
	return n
}
