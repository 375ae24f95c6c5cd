package gateway

import "time"

// slot is an item's place in a queue: when it is due, and where it stands.
type slot struct {
	due   time.Time
	index int32 // in the queue, plus one; 0: not in it
	gone  bool  // never to be put in again
}

// queued is what a queue holds.
type queued interface {
	comparable
	place() *slot
}

// queue is a heap of items by the time they are due. It is not safe for concurrent use.
type queue[T queued] struct{ items []T }

// set puts item in, or moves it, to be due at due.
func (q *queue[T]) set(item T, due time.Time) {
	s := item.place()
	s.due = due
	if s.index == 0 {
		q.items = append(q.items, item)
		s.index = int32(len(q.items))
	}
	q.down(q.up(int(s.index) - 1))
}

// drop takes item out, if it is in.
func (q *queue[T]) drop(item T) {
	s := item.place()
	if s.index == 0 {
		return
	}
	i, last := int(s.index)-1, len(q.items)-1
	q.swap(i, last)
	var none T
	q.items[last] = none
	q.items = q.items[:last]
	s.index = 0
	if i < last {
		q.down(q.up(i))
	}
}

// first is the item that is due first.
func (q *queue[T]) first() (item T, ok bool) {
	if len(q.items) == 0 {
		return item, false
	}
	return q.items[0], true
}

func (q *queue[T]) less(i, j int) bool { return q.items[i].place().due.Before(q.items[j].place().due) }

func (q *queue[T]) swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.items[i].place().index, q.items[j].place().index = int32(i+1), int32(j+1)
}

func (q *queue[T]) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			break
		}
		q.swap(i, parent)
		i = parent
	}
	return i
}

func (q *queue[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.items) {
			return
		}
		if right := child + 1; right < len(q.items) && q.less(right, child) {
			child = right
		}
		if !q.less(child, i) {
			return
		}
		q.swap(i, child)
		i = child
	}
}
