package way

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunk   = 16 << 10 // what is read at once, in bytes
	waiting = 256      // replies of one connection that may wait at a time; beyond, the server is not read
)

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// link is one client's connection and the server's that answers it.
type link struct {
	way            *Way
	client, server net.Conn
	swallowed      atomic.Bool // for good: nothing passes any more
	once           sync.Once
	ended          chan struct{} // closed when it was hung up
}

// reply is a piece of what the server said and when the client may hear it.
type reply struct {
	due  time.Time
	data *[chunk]byte
	n    int
}

// run passes on what either side says until both have ended.
func (l *link) run() {
	queue := make(chan reply, waiting)
	var all sync.WaitGroup
	all.Go(func() { defer l.hangUp(); l.requests() })
	all.Go(func() { defer close(queue); l.replies(queue) })
	all.Go(func() { defer l.hangUp(); l.deliver(queue) })
	all.Wait()
}

func (l *link) hangUp() {
	l.once.Do(func() { close(l.ended) })
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) requests() {
	data := chunks.Get().(*[chunk]byte)
	defer chunks.Put(data)
	for {
		n, err := l.client.Read(data[:])
		if n > 0 && l.mayPass(HoldBack) {
			if _, err := l.server.Write(data[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// mayPass waits while f holds back, and tells whether what waited is delivered then.
func (l *link) mayPass(f Fault) bool {
	for held := l.way.holds(f); held != nil; held = l.way.holds(f) {
		select {
		case <-held:
		case <-l.ended:
			return false
		}
	}
	return !l.swallowed.Load()
}

// replies reads what the server says. It is read apart from being delivered, so that one
// late reply does not make the next one later still.
func (l *link) replies(queue chan<- reply) {
	for {
		data := chunks.Get().(*[chunk]byte)
		n, err := l.server.Read(data[:])
		if n > 0 {
			switch Fault(l.way.now.Load()) {
			case LoseReplies:
				n = 0
			case ResetReply:
				l.hangUp()
				return
			}
		}
		if n > 0 {
			select {
			case queue <- reply{due: time.Now().Add(time.Duration(l.way.delay.Load())), data: data, n: n}:
			case <-l.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver passes replies on, in order and each piece as late as was asked when it arrived.
func (l *link) deliver(queue <-chan reply) {
	for r := range queue {
		if !l.sleepUntil(r.due) {
			return
		}
		var err error
		if l.mayPass(HoldReplies) {
			_, err = l.client.Write(r.data[:r.n])
		}
		chunks.Put(r.data)
		if err != nil {
			return
		}
	}
}

// sleepUntil is false when the link ended first.
func (l *link) sleepUntil(due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}
