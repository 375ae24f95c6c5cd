package redisstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// trip is one round trip of a carrier, and its memory, which the carrier's next trip uses
// again. While it is loaded, the batcher's mutex guards what its riders may look at.
type trip struct {
	began  time.Time
	riders []*rider
	done   chan struct{} // closed when it ends; nil: nobody asked

	// Of the carrier alone:
	ops    []*op
	words  []any
	calls  []*call
	told   []*rider
	said   []reply
	failed []error
}

// ended is closed when nothing of t is on the wire any more. The batcher's mu is held.
func (t *trip) ended() <-chan struct{} {
	if t.done == nil {
		t.done = make(chan struct{})
	}
	return t.done
}

// carry takes riders as long as there are any.
func (b *batcher) carry() {
	t := new(trip)
	for b.load(t) {
		b.drive(t)
		b.unload(t)
	}
}

// help carries too, but has a connection before it takes anybody: those in line may still
// be served by one that is there while a new one takes its time, or is never made.
func (b *batcher) help() {
	able := b.client.PoolStats().IdleConns > 0 || b.connect()
	b.mu.Lock()
	b.helping = false
	if !able {
		b.unable = time.Now().Add(b.node.cfg.Timeout)
		b.limit = max(b.limit-1, min(trips, b.most))
		b.out--
		if b.out == 0 { // nobody else will come back to the line
			b.send()
		}
	}
	b.mu.Unlock()
	if able {
		b.carry()
	}
}

// callHelp raises the limit by one trip, one at a time: on a machine or a server that is
// merely busy more of them help nobody, and where none can be made, dials would storm. b.mu
// is held.
func (b *batcher) callHelp(now time.Time) {
	if b.closed || b.helping || b.limit == b.most || b.out < b.limit || now.Before(b.unable) {
		return
	}
	b.helping = true
	b.limit++
	b.out++
	b.running.Go(b.help)
}

// connect makes the pool have one connection more, unless one has come free meanwhile.
func (b *batcher) connect() bool {
	ctx := &timed{Context: context.Background(), deadline: time.Now().Add(b.node.cfg.Timeout)}
	defer ctx.end()
	cmd := redis.NewCmd(ctx, "ping")
	err := b.client.Process(ctx, cmd)
	return err == nil || answered(err)
}

// load lets riders onto t; without any, or with too many trips under way, this was the
// carrier's last.
func (b *batcher) load(t *trip) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.first < len(b.line) && len(t.riders) < maxOps && b.out <= b.limit {
		r := b.line[b.first]
		b.line[b.first] = nil
		b.first++
		if r.state == inLine {
			r.state, r.trip = onTrip, t
			t.riders = append(t.riders, r)
		}
	}
	if b.first == len(b.line) {
		b.line, b.first = b.line[:0], 0
	}
	if len(t.riders) == 0 {
		b.out--
		return false
	}
	if !t.alike() {
		slices.SortStableFunc(t.riders, func(x, y *rider) int {
			return cmp.Or(cmp.Compare(x.script.sha, y.script.sha), cmp.Compare(x.group, y.group))
		})
	}
	t.began = time.Now()
	b.loaded = append(b.loaded, t)
	return true
}

// drive makes the round trip: one call of one script, or as many as there are scripts and
// groups among the riders, in one pipeline. It ends by the last rider's deadline.
func (b *batcher) drive(t *trip) {
	last := t.riders[0].deadline
	for _, r := range t.riders {
		r.limit.sent = t.began
		if r.deadline.After(last) {
			last = r.deadline
		}
	}
	ctx := &timed{Context: context.Background(), deadline: last}
	defer ctx.end()
	t.ops, t.said, t.failed = t.ops[:0], t.said[:0], t.failed[:0]
	if t.alike() {
		for _, r := range t.riders {
			t.ops = append(t.ops, &r.op)
		}
		c := t.riders[0].script.call(place{node: b.node}, t.words, t.ops...)
		t.words = c.words
		t.hear(&c, c.run(ctx, b.client))
		return
	}
	t.calls = t.calls[:0]
	for rest := t.riders; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].rides(rest[0]) {
			n++
		}
		ops := make([]*op, n)
		for i, r := range rest[:n] {
			ops[i] = &r.op
		}
		c := rest[0].script.call(place{node: b.node}, nil, ops...)
		t.calls, rest = append(t.calls, &c), rest[n:]
	}
	for i, cmd := range pipelined(ctx, b.client, t.calls) {
		t.hear(t.calls[i], cmd)
	}
}

// rides tells whether r and another may share one call.
func (r *rider) rides(with *rider) bool { return r.script == with.script && r.group == with.group }

// alike tells whether all riders may share one call.
func (t *trip) alike() bool {
	for _, r := range t.riders[1:] {
		if !r.rides(t.riders[0]) {
			return false
		}
	}
	return true
}

// hear takes in what cmd answered to the next riders, which c carried.
func (t *trip) hear(c *call, cmd *redis.Cmd) {
	first := len(t.said)
	said, err := c.replies(cmd, t.said)
	if err != nil {
		said = append(said, make([]reply, c.ops)...)
	}
	for _, r := range said[first:] {
		t.failed = append(t.failed, cmp.Or(err, r.fault()))
	}
	t.said = said
}

// unload ends t and answers those riders who are still there.
func (b *batcher) unload(t *trip) {
	now := time.Now()
	for _, said := range t.said {
		if b.node.heard(context.Background(), t.began, said) {
			break
		}
	}
	t.told = t.told[:0]
	b.mu.Lock()
	for i, r := range t.riders {
		if r.state != onTrip {
			b.loose.Add(-1)
			continue
		}
		r.state, r.reply, r.sent, r.err = served, t.said[i], t.began, t.failed[i]
		t.told = append(t.told, r)
	}
	clear(t.riders)
	clear(t.said)
	t.riders = t.riders[:0]
	if t.done != nil {
		close(t.done)
		t.done = nil
	}
	b.loaded = slices.DeleteFunc(b.loaded, func(other *trip) bool { return other == t })
	b.moved = now
	if now.Sub(t.began) < stall {
		b.limit = max(b.limit-1, min(trips, b.most))
	}
	b.mu.Unlock()
	tell(t.told)
	clear(t.told)
}
