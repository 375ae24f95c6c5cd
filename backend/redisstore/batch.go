package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

const (
	// trips is how many calls are under way on one pool while the server is quick: one
	// travels while the server works on the other. More of them only make batches smaller
	// (measured, decision 0014).
	trips = 2
	// stall is how long a line may stand before another connection helps: the server is far
	// or slow, or a connection has died.
	stall = 20 * time.Millisecond
)

// batcher carries operations over one pool of a node. While there is little to carry, each
// caller carries its own, on its own goroutine under a socket deadline. When trips are
// under way already, callers stand in line, and carriers take up to maxOps of them in one
// call; a carrier is a goroutine that lives as long as there is a line.
//
// Each rider is answered at its own deadline or at its context's end, whatever becomes of
// its trip:
//  1. still in line, it was never sent: nothing is in doubt;
//  2. on a trip, it is in doubt until the trip ends, and Done tells of that.
//
// So a call that hangs makes nobody late but those who are on it, and those who wait
// behind it get another connection after stall.
type batcher struct {
	node   *node
	client *redis.Client
	most   int // trips at once, at most: the connections of the pool

	mu      sync.Mutex
	closed  bool
	line    []*rider // of which those before first have left
	first   int
	out     int // trips under way, those of callers that carry their own included
	limit   int // of out, for now
	moved   time.Time
	helping bool         // somebody connects to help
	unable  time.Time    // nobody helps before: the last one who tried got no connection
	loaded  []*trip      // under way by carriers
	loose   atomic.Int64 // riders that have gone while on a trip
	timer   *time.Timer
	wake    time.Time      // when timer fires; zero: it does not
	running sync.WaitGroup // carriers, and the timer when it is set
}

// rider is one operation on its way, alone or carried by others, and what came of it. It
// is one piece of memory that serves again when the answer is there.
type rider struct {
	op
	script   *script
	group    uint16
	asked    time.Time
	deadline time.Time

	state riderState
	trip  *trip
	reply reply
	sent  time.Time
	err   error
	told  chan struct{} // has one word when state is answered, or left because of the watch

	call call    // of one that goes alone ...
	room [18]any // ... and its words, the longest
}

type riderState uint8

const (
	outside riderState = iota
	inLine
	onTrip
	served
	left
)

var riders = sync.Pool{New: func() any { return &rider{told: make(chan struct{}, 1)} }}

// riderFor asks about hold. Whoever takes it frees it.
func riderFor(hold tierlock.Hold) *rider {
	r := riders.Get().(*rider)
	r.state = outside
	r.about(hold)
	return r
}

// free lets r serve again, but for one that has left: its trip still knows it.
func (r *rider) free() {
	if r.state != left {
		r.reply = reply{} // and the text it is a part of
		riders.Put(r)
	}
}

func newBatcher(n *node, client *redis.Client) *batcher {
	return &batcher{node: n, client: client, most: n.cfg.PoolSize, limit: min(trips, n.cfg.PoolSize)}
}

// ask puts r, a question to s, to the server at to. What came of it stands in r, but for the
// error, which is a [*tierlock.Fault].
func (b *batcher) ask(q *question, to place, s *script, r *rider) error {
	if to.alone || s == &passScript { // which serves one operation a call
		return b.alone(q, to, s, r)
	}
	b.mu.Lock()
	if b.closed || b.first == len(b.line) && b.out < b.limit {
		b.out++
		b.mu.Unlock()
		defer b.back()
		return b.alone(q, to, s, r)
	}
	r.script, r.group = s, b.node.group(r.of)
	r.asked, r.deadline, r.state = q.asked, q.deadline, inLine
	b.join(r)
	b.mu.Unlock()
	return b.wait(q.caller, r)
}

// alone carries one operation on the caller's goroutine.
func (b *batcher) alone(q *question, to place, s *script, r *rider) (err error) {
	r.call = s.call(to, r.room[:], &r.op)
	r.limit.sent = time.Time{}
	if r.limit.clock == nil {
		r.limit.sent = time.Now()
	}
	ctx := q.context()
	r.reply, err = r.call.reply(r.call.run(ctx, b.client))
	r.sent = r.limit.sent
	b.node.heard(ctx, r.sent, r.reply)
	return err
}

// back ends the trip of a caller that carried its own.
func (b *batcher) back() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	b.send()
}

// send lets as many carriers go as the line needs and the limit allows. b.mu is held.
func (b *batcher) send() {
	if b.closed {
		return
	}
	for calls := (len(b.line) - b.first + maxOps - 1) / maxOps; calls > 0 && b.out < b.limit; calls-- {
		b.out++
		b.running.Go(b.carry)
	}
}

// join puts r at the end of the line. b.mu is held.
func (b *batcher) join(r *rider) {
	if b.first > 0 && len(b.line) == cap(b.line) {
		n := copy(b.line, b.line[b.first:])
		clear(b.line[n:])
		b.line, b.first = b.line[:n], 0
	}
	if b.first == len(b.line) {
		b.moved = r.asked
	}
	b.line = append(b.line, r)
	b.watch(earlier(r.deadline, r.asked.Add(stall)))
	b.send()
}

// wait ends with r's answer, or with ctx.
func (b *batcher) wait(ctx context.Context, r *rider) error {
	if done := ctx.Done(); done == nil {
		<-r.told
	} else {
		select {
		case <-r.told:
		case <-done:
			b.mu.Lock()
			if b.leave(r, ctx.Err()) {
				b.mu.Unlock()
				return r.err
			}
			b.mu.Unlock()
			<-r.told
		}
	}
	err := r.err
	if r.state == served { // else its trip still knows it
		r.trip, r.err = nil, nil
	}
	return err
}

// leave ends r's wait with a fault, unless it has been answered. b.mu is held.
func (b *batcher) leave(r *rider, why error) bool {
	switch r.state {
	case inLine:
		r.err = b.unsent(r, why)
	case onTrip:
		b.loose.Add(1)
		r.err = &tierlock.Fault{Reason: fault(why).Reason, InDoubt: true, Done: r.trip.ended(), Err: why}
	default:
		return false
	}
	r.state = left
	return true
}

// unsent is the fault of a rider that waited in line and was sent nowhere. Who waited long
// had no connection; who was in a hurry had no time.
func (b *batcher) unsent(r *rider, why error) *tierlock.Fault {
	f := fault(why)
	if f.Reason == tierlock.ReasonAttempt && r.deadline.Sub(r.asked) > b.node.cfg.Timeout/2 {
		f.Reason, f.Err = tierlock.ReasonSaturated, errLine
	}
	return f
}

var errLine = errors.New("stood in line for a connection till the deadline")

// close lets nobody into the line any more and sends home who stands in it. Trips under
// way end with their connections: close those, then wait.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	var home []*rider
	for _, r := range b.line[b.first:] {
		if b.leave(r, redis.ErrClosed) {
			home = append(home, r)
		}
	}
	b.line, b.first = nil, 0
	if !b.wake.IsZero() && b.timer.Stop() {
		b.running.Done()
	}
	b.mu.Unlock()
	tell(home)
}

// tell wakes those who wait; b.mu is not held.
func tell(riders []*rider) {
	for _, r := range riders {
		r.told <- struct{}{}
	}
}

// await ends when no goroutine of the batcher runs any more.
func (b *batcher) await() { b.running.Wait() }
