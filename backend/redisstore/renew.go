package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// Renew extends all holds, in one round trip for each server. Where several got no answer,
// the error is the first one's.
func (s *Store) Renew(ctx context.Context, holds []tierlock.Hold) ([]tierlock.Answer, error) {
	answers := make([]tierlock.Answer, len(holds))
	for _, hold := range holds {
		if err := checkTTL(hold.TTL); err != nil {
			return answers, err
		}
	}
	if len(holds) == 0 {
		return answers, nil
	}
	q, err := s.question(ctx)
	if err != nil {
		return answers, err
	}
	defer q.end()
	r := renewal{
		holds: holds, answers: answers, errs: make([]error, len(holds)), deep: make([]bool, len(holds)),
		apart: s.renewApart,
	}
	todo := map[place][]int{}
	for i, hold := range holds {
		to, err := s.servers.place(q, hold.Key)
		if r.errs[i] = err; err == nil {
			todo[to] = append(todo[to], i)
		}
	}
	for turn := 0; len(todo) > 0; turn++ {
		r.put(q, todo)
		todo = r.left(todo, func(i int, from place) (place, error) {
			if errors.Is(r.errs[i], errEntered) {
				return from, nil
			}
			return s.servers.elsewhere(q.context(), holds[i].Key, from, r.errs[i], turn)
		})
	}
	for _, err := range r.errs {
		if err != nil {
			return answers, err
		}
	}
	return answers, nil
}

// renewal is one Renew: what is asked, and each hold's answer or error.
type renewal struct {
	holds   []tierlock.Hold
	answers []tierlock.Answer
	errs    []error
	deep    []bool // those that were entered: their records are renewed with them
	apart   func(*question, tierlock.Hold) (tierlock.Answer, error)
}

// errEntered is why a hold is asked about once more.
var errEntered = errors.New("the lock was entered more than once")

func (r renewal) fill(o *op, at int) {
	o.about(r.holds[at])
	if r.deep[at] {
		o.deepen()
	}
}

// hear takes in what was said of one hold.
func (r renewal) hear(at int, said reply, sent time.Time, err error) {
	if r.errs[at] = err; err != nil {
		return
	}
	if said.entered() {
		r.deep[at], r.errs[at] = true, errEntered
		return
	}
	r.answers[at] = said.answer(sent, r.holds[at].TTL)
}

// put asks each place about its holds, all places at once: one that hangs makes no other
// late.
func (r renewal) put(q *question, todo map[place][]int) {
	var all sync.WaitGroup
	for to, which := range todo {
		if len(todo) == 1 {
			r.ask(q, to, which)
			return
		}
		all.Go(func() { r.ask(q, to, which) })
	}
	all.Wait()
}

// ask goes in one round trip, with one call for as many holds as share one. A hold alone
// shares it with what others ask.
func (r renewal) ask(q *question, to place, which []int) {
	if to.bare { // a lock that was entered, and its record, may be in two places
		which = slices.DeleteFunc(which, func(at int) bool {
			if r.deep[at] {
				r.answers[at], r.errs[at] = r.apart(q, r.holds[at])
			}
			return r.deep[at]
		})
	}
	if len(which) == 1 {
		at := which[0]
		one := riderFor(r.holds[at])
		defer one.free()
		err := to.ask(q, to.node.controlling, &renewScript, one)
		r.hear(at, one.reply, one.sent, err)
		return
	}
	groups := map[uint16][]int{}
	for _, at := range which {
		group := to.node.group(r.holds[at].Key)
		groups[group] = append(groups[group], at)
	}
	most := maxOps
	if to.alone {
		most = 1
	}
	var calls []*call
	var parts [][]int
	for _, group := range groups {
		for part := range slices.Chunk(group, most) {
			ops := make([]*op, len(part))
			for i, at := range part {
				ops[i] = new(op)
				r.fill(ops[i], at)
			}
			c := renewScript.call(to, nil, ops...)
			calls, parts = append(calls, &c), append(parts, part)
		}
	}
	sent := time.Now()
	for c, cmd := range pipelined(q.context(), to.node.control, calls) {
		said, err := calls[c].replies(cmd, nil)
		if err != nil {
			said = make([]reply, calls[c].ops)
		}
		for i, at := range parts[c] {
			r.hear(at, said[i], sent, cmp.Or(err, said[i].fault()))
		}
	}
}

// left are the holds to ask about once more, and where.
func (r renewal) left(todo map[place][]int, elsewhere func(i int, from place) (place, error)) map[place][]int {
	again := map[place][]int{}
	for from, which := range todo {
		for _, i := range which {
			if r.errs[i] == nil {
				continue
			}
			var to place
			if to, r.errs[i] = elsewhere(i, from); r.errs[i] == nil {
				again[to] = append(again[to], i)
			}
		}
	}
	return again
}
