package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// Renew extends all holds, in one pipeline for each server. Where several got no answer,
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
func (r renewal) put(ctx context.Context, todo map[place][]int) {
	var all sync.WaitGroup
	for to, which := range todo {
		if len(todo) == 1 {
			r.ask(ctx, to, which)
			return
		}
		all.Go(func() { r.ask(ctx, to, which) })
	}
	all.Wait()
}

func (r renewal) ask(ctx context.Context, to place, which []int) {
	calls := make([]*call, len(which))
	for i, at := range which {
		c := newCall(&renewScript, r.holds[at])
		c.asking = to.asking
		c.words = append(c.words, &c.ttl)
		calls[i] = c
	}
	sent := time.Now()
	for i, cmd := range pipelined(ctx, to.node.control, calls) {
		at := which[i]
		reply, err := read(cmd)
		if r.errs[at] = err; err == nil {
			r.answers[at] = reply.answer(sent, r.holds[at].TTL)
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
