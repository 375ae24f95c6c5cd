package redisstore

import (
	"context"
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
	r := renewal{holds: holds, answers: answers, errs: make([]error, len(holds))}
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
			return s.servers.elsewhere(q, holds[i].Key, from, r.errs[i], turn)
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
	if len(which) == 1 {
		at := which[0]
		reply, sent, err := to.node.controlling.ask(q, to, &renewScript, opOf(r.holds[at]))
		if r.errs[at] = err; err == nil {
			r.answers[at] = reply.answer(sent, r.holds[at].TTL)
		}
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
				o := opOf(r.holds[at])
				ops[i] = &o
			}
			c := renewScript.call(to, nil, ops...)
			calls, parts = append(calls, &c), append(parts, part)
		}
	}
	sent := time.Now()
	for c, cmd := range pipelined(q, to.node.control, calls) {
		for i, at := range parts[c] {
			reply, err := calls[c].reply(cmd, i)
			if r.errs[at] = err; err == nil {
				r.answers[at] = reply.answer(sent, r.holds[at].TTL)
			}
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
