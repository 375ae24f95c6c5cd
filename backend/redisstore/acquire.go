package redisstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	// maxFloor keeps tokens below 2^53, where a Lua number is still exact.
	maxFloor = 1<<53 - 2
	// fenceTTL is how long a fence record outlives its last grant at least, so that tokens
	// rise over the idle times of a business day; ten ttl for very long locks.
	fenceTTL = 24 * time.Hour
)

// Acquire asks once; a request without NotAfter is refused by the server after ctx's
// deadline. An answer Late that only an outdated idea of the server's clock explains is
// asked again, once and before the deadline.
func (s *Store) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	if err := check(req); err != nil {
		return tierlock.Answer{}, err
	}
	q, err := s.question(ctx)
	if err != nil {
		return tierlock.Answer{}, err
	}
	defer q.end()
	if req.NotAfter.IsZero() {
		req.NotAfter = q.deadline
	}
	answer, err := s.acquire(q, req)
	if errors.Is(err, errApart) {
		return s.acquireInSteps(q, req)
	}
	return answer, err
}

func (s *Store) acquire(q *question, req tierlock.Request) (answer tierlock.Answer, err error) {
	err = s.send(q, req.Key, func(to place) error {
		var server int64
		var err error
		answer, server, err = to.acquire(q, req)
		if answer.Status == tierlock.Late && server < to.node.clock.server(req.NotAfter) {
			answer, _, err = to.acquire(q, req)
		}
		return err
	})
	return answer, err
}

// acquire also tells what the server's clock showed, in Unix microseconds.
func (p place) acquire(q *question, req tierlock.Request) (tierlock.Answer, int64, error) {
	answer, server, err := p.claim(q, req)
	if answer.Status == tierlock.Gone && req.Entry == 0 { // entered before, it ended while it was looked at
		return p.claim(q, req)
	}
	return answer, server, err
}

func (p place) claim(q *question, req tierlock.Request) (tierlock.Answer, int64, error) {
	r := p.node.wanted(req)
	defer r.free()
	if err := p.ask(q, p.node.acquiring, &acquireScript, r); err != nil {
		return tierlock.Answer{}, 0, err
	}
	return r.reply.answer(r.sent, req.TTL), r.reply.now, nil
}

// wanted is the operation that asks for req.
func (n *node) wanted(req tierlock.Request) *rider {
	r := riderFor(req.Hold)
	r.limit.clock, r.limit.at = &n.clock, req.NotAfter
	if req.Fenced {
		r.fenced()
		r.floor = uint64(req.Floor)
		r.keep = max(fenceTTL, 10*req.TTL).Milliseconds()
	}
	if !req.WaitTill.IsZero() {
		if wait := time.Until(req.WaitTill).Milliseconds(); wait > 0 {
			r.lined()
			r.wait, r.member = wait, n.inbox.member(req.ID)
		}
	}
	return r
}

// notAfter is the argument that tells the server when to refuse. It is worked out at the
// moment it is written: by then the connection is there, and the server on it has been
// asked for its time.
type notAfter struct {
	clock *clock
	at    time.Time
	sent  time.Time // when it was written, or its trip began
	text  [20]byte  // room for what was written
}

// MarshalBinary is called by go-redis as it writes the request.
func (n *notAfter) MarshalBinary() ([]byte, error) {
	if n.sent.IsZero() {
		n.sent = time.Now()
	}
	return strconv.AppendInt(n.text[:0], n.clock.server(n.at), 10), nil
}

// check refuses what the script could not do right.
func check(req tierlock.Request) error {
	if req.Floor > maxFloor {
		return tierlock.Invalid("floor", strconv.FormatUint(uint64(req.Floor), 10), "want at most 2^53-2: the token above it must be exact in a double")
	}
	return checkTTL(req.TTL)
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return tierlock.Invalid("ttl", ttl.String(), "want 1ms or more")
	}
	return nil
}
