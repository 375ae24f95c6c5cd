package faults

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/way"
)

func blackHole(t *testing.T) { vanishes(t, way.BlackHole, false) }

// halfOpen is a server that is gone behind connections that nobody closes: what stood is
// swallowed, and what is dialled is accepted and leads nowhere.
func halfOpen(t *testing.T) { vanishes(t, way.BlackHole, true) }

func vanishes(t *testing.T, f way.Fault, killed bool) {
	s := newSite(t, setup{})
	before := s.way.Accepted()
	s.way.Become(f)
	if killed {
		s.server.Kill()
		s.server.Restart() // another process now: no connection of before can serve
	}
	for i := range 10 {
		s.is(ask(s.orders, strconv.Itoa(i)), errNotServed)
	}
	s.eventually(5*time.Second, "the weak chain is local", func() bool {
		a := ask(s.coupons, "x")
		defer func() { _ = a.lock.Unlock(t.Context()) }()
		return a.err == nil && a.tier() == tierlock.Local
	})
	s.way.Become(way.None)
	s.serves()
	if s.way.Accepted() == before {
		t.Error("served over a connection that was swallowed")
	}
	s.nothingIsLeft()
}

// resetInTheReply, lostReply: the server has done it and nobody heard. The same request
// asked again finds its own lock, with its first token.
func resetInTheReply(t *testing.T) { unheard(t, way.ResetReply) }

func lostReply(t *testing.T) { unheard(t, way.LoseReplies) }

func unheard(t *testing.T, f way.Fault) {
	s := newSite(t, setup{})
	s.do("acl", "setuser", "default", "-del") // nothing is given back before it is found
	id := tierlock.NewRequestID()
	s.way.Become(f)
	s.is(ask(s.orders, "a", gateway.WithRequestID(id)), errNotServed)
	s.is(ask(s.orders, "b"), errNotServed) // nobody asks for this one again
	if held := s.boss.Get(t.Context(), "biz:order:lock:a").Val(); held != id.Secret() {
		t.Fatal("the store does not hold it for the request")
	}
	first, err := s.boss.Get(t.Context(), "{biz:order:lock:a}:fence").Uint64()
	if err != nil {
		t.Fatalf("the first token: %v", err)
	}
	s.way.Become(way.None)
	var a answer
	s.eventually(10*time.Second, "the same request is served", func() bool {
		a = ask(s.orders, "a", gateway.WithRequestID(id))
		return a.err == nil
	})
	if g := a.lock.Grant(); !g.Replayed || g.Token != tierlock.Token(first) {
		t.Errorf("replayed %t, token %d; want the first, %d", g.Replayed, g.Token, first)
	}
	s.do("acl", "setuser", "default", "+del")
	if err := a.lock.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	s.nothingIsLeft()
}

// deliveredTooLate looks at the fence record, which no release takes away: had the server
// granted the lock, the record were there.
func deliveredTooLate(t *testing.T) {
	const fence = "{biz:order:lock:a}:fence"
	s := newSite(t, setup{})
	s.do("config", "set", "slowlog-log-slower-than", "0", "slowlog-max-len", "10000")
	s.do("slowlog", "reset")
	delivered := func() bool {
		calls, err := s.boss.SlowLogGet(t.Context(), -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(calls, func(c redis.SlowLog) bool {
			return slices.Contains(c.Args, fence) // only an acquire names it
		})
	}
	s.way.Become(way.HoldBack)
	s.is(ask(s.orders, "a"), errNotServed, tierlock.ReasonAttempt)
	lasts := 600 * time.Millisecond
	if soak() {
		lasts = 2 * time.Second
	}
	wait(lasts)
	if delivered() {
		t.Fatal("delivered while requests are held back")
	}
	s.way.Become(way.None)
	s.eventually(5*time.Second, "the request is delivered", delivered)
	if s.boss.Exists(t.Context(), fence).Val() != 0 {
		t.Error("the server granted what came too late")
	}
	s.serves()
	s.nothingIsLeft()
}

// Replies that come around the moment at which their readers give up: none may be taken
// for the answer to another question.
func repliesOutOfStep(t *testing.T) {
	s := newSite(t, setup{policy: func(p *gateway.Policy) { p.Ladder.Timeouts = 64 }})
	var granted, late atomic.Int64
	met := func() bool { return granted.Load() >= 10 && late.Load() >= 10 }
	// On a busy machine every reply is late at first: then they come a little sooner.
	for before := 12 * time.Millisecond; before < attempt && !met(); before *= 2 {
		s.way.Delay(attempt - before)
		var all sync.WaitGroup
		end := time.Now().Add(2500 * time.Millisecond)
		for range 8 {
			all.Go(func() {
				for !met() && time.Now().Before(end) {
					id := "k" + strconv.Itoa(rand.IntN(1_000_000))
					a := ask(s.orders, id, gateway.WithoutRenew())
					if a.err != nil {
						late.Add(1)
						continue
					}
					granted.Add(1)
					g := a.lock.Grant()
					if held := s.boss.Get(t.Context(), g.Key.String()).Val(); held != g.RequestID.Secret() {
						t.Errorf("%s was granted and is another's in the store", g.Key)
					}
					_ = a.lock.Unlock(t.Context())
				}
			})
		}
		all.Wait()
	}
	if granted.Load() == 0 || late.Load() == 0 {
		t.Errorf("%d granted, %d not answered: one was never met", granted.Load(), late.Load())
	}
	s.way.Become(way.None)
	s.serves()
	l := s.must(s.orders, "after")
	if held, err := l.IsHeld(t.Context()); !held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	if err := l.Unlock(t.Context()); err != nil && !errors.Is(err, tierlock.ErrTimeout) {
		t.Errorf("unlock: %v", err)
	}
	s.nothingIsLeft()
}
