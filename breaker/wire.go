package breaker

import (
	"math"
	"time"
)

// wire counts the operations that are out, and lines up those that wait for a slot. It is
// guarded by the sensor's mutex.
//
// Its one rule: whenever a slot gets free, it goes to whoever has waited longest among
// those that may have it, in the same breath. So nobody waits while a slot is free that
// it may use, and who finds one free has overtaken nobody.
type wire struct {
	limit     int // operations that may be out
	weakLimit int // of them, those that weak chains may have out
	out       int // operations out, those never refused included
	weak      int // of them, those of weak chains

	strongs, weaks line
	asked          uint64    // waiters so far
	idle           []*waiter // to be used again, so that a wait allocates nothing
}

// waiter waits for one slot.
type waiter struct {
	weak    bool
	forced  bool // stays in line when the breaker opens
	order   uint64
	granted bool          // the slot is its own, counted already
	ready   chan struct{} // one token, when out of the line by another's doing
	timer   *time.Timer   // for whoever waits; stopped while nobody does

	in         *line // nil once out of the line
	prev, next *waiter
}

func newWire(limit int, reserved float64) wire {
	weak := limit - int(math.Ceil(reserved*float64(limit)))
	return wire{limit: limit, weakLimit: max(weak, 1)}
}

func (w *wire) room(weak bool) bool {
	return w.counted() < w.limit && (!weak || w.weak < w.weakLimit)
}

// counted is what is out as the limit sees it. Releases are never refused, so weak chains
// may have more out than their part; what is beyond it takes nothing from the strong ones.
func (w *wire) counted() int { return w.out - max(0, w.weak-w.weakLimit) }

// shares tells whether one more may go out with share of the wire in use, or under it. The weak
// part is scaled with it, so that a flood of weak chains leaves strong ones their part of the
// share, too. One may always be out.
func (w *wire) shares(weak, under bool, share float64) bool {
	part := places(w.weakLimit, under, share)
	if weak && w.weak >= part {
		return false
	}
	return w.out-max(0, w.weak-part) < places(w.limit, under, share)
}

// places is how many of limit are share of it, or as many as are under it.
func places(limit int, under bool, share float64) int {
	n := int(share * float64(limit))
	if under && float64(n)/float64(limit) >= share {
		n--
	}
	return max(1, n)
}

// take takes a slot if one is free.
func (w *wire) take(weak bool) bool {
	if !w.room(weak) {
		return false
	}
	w.add(weak, 1)
	return true
}

// give gives a slot back and hands it on. One slot serves one waiter: whoever else waits
// could not have had any before, and cannot now.
func (w *wire) give(weak bool) {
	w.add(weak, -1)
	if next := w.next(); next != nil {
		w.add(next.weak, 1)
		next.granted = true
		w.dismiss(next)
	}
}

func (w *wire) add(weak bool, n int) {
	w.out += n
	if weak {
		w.weak += n
	}
}

// next is the oldest waiter for whom there is room.
func (w *wire) next() *waiter {
	strong, weak := w.front(&w.strongs, false), w.front(&w.weaks, true)
	if strong == nil || weak != nil && weak.order < strong.order {
		return weak
	}
	return strong
}

func (w *wire) front(l *line, weak bool) *waiter {
	if l.front == nil || !w.room(weak) {
		return nil
	}
	return l.front
}

// queue puts a new waiter at the end of its line. It must be taken back by leave.
func (w *wire) queue(weak, forced bool) *waiter {
	var n *waiter
	if last := len(w.idle) - 1; last >= 0 {
		n, w.idle = w.idle[last], w.idle[:last]
	} else {
		n = &waiter{ready: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		n.timer.Stop()
	}
	w.asked++
	n.weak, n.forced, n.order, n.granted = weak, forced, w.asked, false
	if weak {
		w.weaks.push(n)
	} else {
		w.strongs.push(n)
	}
	return n
}

// leave takes n back, out of its line if it still stands there, and tells whether it has
// been given a slot. n is not to be used afterwards.
func (w *wire) leave(n *waiter) (granted bool) {
	if n.in != nil {
		n.in.remove(n)
	}
	n.timer.Stop()
	select {
	case <-n.ready: // a token that nobody has seen
	default:
	}
	w.idle = append(w.idle, n)
	return n.granted
}

// flush sends everybody away without a slot, but for those who pass whatever the breaker
// says.
func (w *wire) flush() {
	for _, l := range []*line{&w.strongs, &w.weaks} {
		for n := l.front; n != nil; {
			next := n.next
			if !n.forced {
				w.dismiss(n)
			}
			n = next
		}
	}
}

func (w *wire) dismiss(n *waiter) {
	n.in.remove(n)
	n.ready <- struct{}{} // there is room: one dismissal per wait
}

// full is the share of the wire in use with loose operations on top, and the same as weak
// chains meet it.
func (w *wire) full(loose int) (all, weak float64) {
	all = float64(w.counted()+loose) / float64(w.limit)
	return all, max(all, float64(w.weak)/float64(w.weakLimit))
}

// line is a queue of waiters, the oldest in front, that any of them may leave.
type line struct{ front, back *waiter }

func (l *line) push(n *waiter) {
	n.in, n.prev, n.next = l, l.back, nil
	if l.back == nil {
		l.front = n
	} else {
		l.back.next = n
	}
	l.back = n
}

func (l *line) remove(n *waiter) {
	if n.prev == nil {
		l.front = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.back = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in, n.prev, n.next = nil, nil, nil
}
