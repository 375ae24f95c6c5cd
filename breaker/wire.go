package breaker

import (
	"container/list"
	"math"
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

	strongs, weaks list.List // of *waiter, oldest in front
	asked          uint64    // waiters so far
}

// waiter waits for one slot.
type waiter struct {
	weak    bool
	order   uint64
	place   *list.Element // nil once out of the line
	granted bool          // the slot is its own, counted already
	ready   chan struct{} // closed when out of the line by another's doing
}

func newWire(limit int, reserved float64) wire {
	weak := limit - int(math.Ceil(reserved*float64(limit)))
	return wire{limit: limit, weakLimit: max(weak, 1)}
}

func (w *wire) room(weak bool) bool {
	return w.out < w.limit && (!weak || w.weak < w.weakLimit)
}

// take takes a slot if one is free.
func (w *wire) take(weak bool) bool {
	if !w.room(weak) {
		return false
	}
	w.add(weak, 1)
	return true
}

// give gives a slot back and hands on what is free.
func (w *wire) give(weak bool) {
	w.add(weak, -1)
	for next := w.next(); next != nil; next = w.next() {
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

func (w *wire) front(line *list.List, weak bool) *waiter {
	if line.Len() == 0 || !w.room(weak) {
		return nil
	}
	return line.Front().Value.(*waiter)
}

// queue puts a new waiter at the end of its line.
func (w *wire) queue(weak bool) *waiter {
	w.asked++
	n := &waiter{weak: weak, order: w.asked, ready: make(chan struct{})}
	n.place = w.line(weak).PushBack(n)
	return n
}

// leave takes n out of its line, if it still stands there, and tells whether it has been
// given a slot.
func (w *wire) leave(n *waiter) (granted bool) {
	if n.place != nil {
		w.line(n.weak).Remove(n.place)
		n.place = nil
	}
	return n.granted
}

// flush sends everybody away without a slot.
func (w *wire) flush() {
	for _, line := range []*list.List{&w.strongs, &w.weaks} {
		for line.Len() > 0 {
			w.dismiss(line.Front().Value.(*waiter))
		}
	}
}

func (w *wire) dismiss(n *waiter) {
	w.line(n.weak).Remove(n.place)
	n.place = nil
	close(n.ready)
}

func (w *wire) line(weak bool) *list.List {
	if weak {
		return &w.weaks
	}
	return &w.strongs
}

// full is the share of the wire in use with loose operations on top, and the same as weak
// chains meet it.
func (w *wire) full(loose int) (all, weak float64) {
	all = float64(w.out+loose) / float64(w.limit)
	return all, max(all, float64(w.weak)/float64(w.weakLimit))
}
