package faultproxy

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunk   = 16 << 10 // what is read at once, in bytes
	waiting = 256      // chunks of one connection that may wait at a time; beyond, the server is not read
)

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// link is one client's connection and the server's that answers it.
type link struct {
	client, server net.Conn
	delay          *atomic.Int64
}

// reply is a piece of what the server said and when the client may hear it.
type reply struct {
	due  time.Time
	data *[chunk]byte
	n    int
}

func (l *link) hangUp() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) requests() { _, _ = io.Copy(l.server, l.client) }

// replies passes on what the server says, in order and each piece as late as was asked when
// it arrived. It is read apart from being written, so that one late reply does not make the
// next one later still.
func (l *link) replies(ctx context.Context) {
	queue := make(chan reply, waiting)
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, end := context.WithCancel(ctx) // tells the reader that nobody writes any more
	defer end()
	defer l.hangUp()
	reader.Go(func() { defer close(queue); l.listen(ctx, queue) })
	for r := range queue {
		if !sleepUntil(ctx, r.due) {
			return
		}
		_, err := l.client.Write(r.data[:r.n])
		chunks.Put(r.data)
		if err != nil {
			return
		}
	}
}

func (l *link) listen(ctx context.Context, queue chan<- reply) {
	for {
		data := chunks.Get().(*[chunk]byte)
		n, err := l.server.Read(data[:])
		if n > 0 {
			select {
			case queue <- reply{due: time.Now().Add(time.Duration(l.delay.Load())), data: data, n: n}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// sleepUntil is false when ctx ended first.
func sleepUntil(ctx context.Context, due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
