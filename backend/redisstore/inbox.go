package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

const (
	// inboxPrefix begins the channel of every inbox; release.lua has it too.
	inboxPrefix = "tierlock:inbox:"
	// retryEvery is how often whoever waits tries although nobody tells it anything, so
	// that a lost word costs no more than this, and a quarter. While the inbox is
	// subscribed a word is seldom lost, and it is retryHeard: among 50 processes that hand a
	// lock on every 2.4 ms, most of those who wait for more than 100 ms asked in vain.
	retryEvery = 100 * time.Millisecond
	retryHeard = 200 * time.Millisecond
	// afterEnd is how long after the end that a holder was given the next try comes.
	afterEnd = 5 * time.Millisecond
	// earlyFor is how long a word waits for whom it is about: the answer that sends it to
	// sleep may be on its way still. After passAfter it is the next one's turn as well.
	earlyFor  = time.Second
	passAfter = 20 * time.Millisecond
	// quietFor is how long a subscription says nothing before it is asked for a sign of
	// life: a server that vanished without a word closes no connection.
	quietFor = 5 * time.Second
	// mostEarly bounds those words.
	mostEarly = 1024
	// resubscribeFirst is the pause before a broken subscription is made again, doubled up
	// to resubscribeLast.
	resubscribeFirst = 20 * time.Millisecond
	resubscribeLast  = 2 * time.Second
)

// inbox is where a server tells this process that a key which it waits for is free: one
// channel, one subscription and one goroutine for all keys of a node. A word may be lost —
// no subscription, no right to one, a server that fails over — so nobody relies on it:
// whoever sleeps also wakes by time, and when the subscription is made again.
type inbox struct {
	node   *node
	name   string          // of this process on this node; the server has it in its lines
	ending context.Context //nolint:containedctx // ends with the inbox
	stop   context.CancelFunc
	done   sync.WaitGroup

	retry, heard, quiet time.Duration // retryEvery, retryHeard and quietFor, but in tests

	mu     sync.Mutex
	opened bool                        // guarded by mu
	closed bool                        // guarded by mu
	sub    *redis.PubSub               // under way; guarded by mu
	tuned  bool                        // it is subscribed; guarded by mu
	asleep map[tierlock.Key][]*sleeper // who sleeps, by key, who came first first; guarded by mu
	early  map[tierlock.Key]time.Time  // words about keys for which nobody sleeps, and since when; guarded by mu
}

// sleeper is one Wait.
type sleeper struct {
	id    string        // fingerprint
	awake chan struct{} // buffered
}

func newInbox(n *node) *inbox {
	b := &inbox{
		node: n, name: tierlock.NewRequestID().Fingerprint(), retry: retryEvery, heard: retryHeard, quiet: quietFor,
		asleep: map[tierlock.Key][]*sleeper{}, early: map[tierlock.Key]time.Time{},
	}
	b.ending, b.stop = context.WithCancel(context.Background())
	return b
}

// member is how a request stands in the server's lines. It names the request by its
// fingerprint: the id is the lock's secret.
func (b *inbox) member(id tierlock.RequestID) string { return b.name + " " + id.Fingerprint() }

// open subscribes, once: at the first connection to the server, so that New does no I/O
// and the first to wait finds the subscription there.
func (b *inbox) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened || b.closed {
		return
	}
	b.opened = true
	b.done.Go(func() { b.run(b.ending) })
}

// close ends the subscription and waits for its goroutine.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.stop()
	sub := b.sub
	b.mu.Unlock()
	if sub != nil { // not under mu: it waits for a connection being made, which opens this inbox
		_ = sub.Close() // or it would read on
	}
	b.done.Wait()
}

// run keeps the subscription until ctx ends.
func (b *inbox) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	told := false
	for pause := resubscribeFirst; ; pause = min(2*pause, resubscribeLast) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		subscribed, err := b.listen(ctx)
		if subscribed {
			pause, told = resubscribeFirst, false
		}
		if ctx.Err() == nil && answered(err) && !told {
			told = true
			b.node.cfg.Logger.WarnContext(ctx, "redis refuses the inbox: who waits for a lock asks for it now and then", slog.String("addr", b.node.addr), slog.Any("error", err))
		}
		timer.Reset(jitter(pause))
	}
}

// listen subscribes and hands on what it hears until the subscription breaks.
func (b *inbox) listen(ctx context.Context) (subscribed bool, err error) {
	sub := b.node.control.Subscribe(ctx)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false, sub.Close()
	}
	b.sub = sub
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.sub, b.tuned = nil, false
		b.mu.Unlock()
		_ = sub.Close()
	}()
	within, cancel := context.WithTimeout(ctx, b.node.cfg.Dial+b.node.cfg.Timeout)
	defer cancel()
	if err := sub.Subscribe(within, inboxPrefix+b.name); err != nil {
		return false, err
	}
	asked := true // the reply is awaited, and comes within a deadline
	for {
		patience := b.quiet
		if asked {
			patience = b.node.cfg.Dial + b.node.cfg.Timeout
		}
		got, err := sub.ReceiveTimeout(ctx, patience)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() && !asked {
			asked, err = true, sub.Ping(ctx)
		} else {
			asked = false
		}
		if err != nil {
			return subscribed, err
		}
		switch got := got.(type) {
		case *redis.Subscription:
			subscribed = true
			b.wakeAll()
		case *redis.Message:
			b.hear(got.Payload)
		}
	}
}

// hear takes a word in: "<fingerprint> <key>". Where its request has gone, another one of
// this process that waits for the key has the use of it.
func (b *inbox) hear(word string) {
	id, name, _ := strings.Cut(word, " ")
	key, err := tierlock.ParseKey(name)
	if err != nil {
		return // not ours
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.asleep[key]
	if len(all) == 0 {
		b.keep(key)
		return
	}
	who := all[0]
	for _, s := range all {
		if s.id == id {
			who = s
		}
	}
	who.wake()
}

// wakeAll has everybody try: what was told while there was no subscription is lost.
func (b *inbox) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tuned = true
	for _, all := range b.asleep {
		for _, s := range all {
			s.wake()
		}
	}
}

func (s *sleeper) wake() {
	select {
	case s.awake <- struct{}{}:
	default:
	}
}

// pause is how long to sleep when nobody tells anything.
func (b *inbox) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tuned {
		return b.heard
	}
	return b.retry
}

// join adds a sleeper for key; nil: there is a word for it already.
func (b *inbox) join(key tierlock.Key, id string) *sleeper {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since, ok := b.early[key]; ok {
		delete(b.early, key)
		if time.Since(since) < earlyFor {
			return nil
		}
	}
	s := &sleeper{id: id, awake: make(chan struct{}, 1)}
	b.asleep[key] = append(b.asleep[key], s)
	return s
}

func (b *inbox) leave(key tierlock.Key, s *sleeper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.asleep[key]
	for i, one := range all {
		if one == s {
			all = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if len(all) == 0 {
		delete(b.asleep, key)
		return
	}
	b.asleep[key] = all
}
