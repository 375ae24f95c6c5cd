package redisstore

import (
	"context"
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
	answer, server, err := s.acquire(q, req)
	if answer.Status == tierlock.Late && server < s.clock.server(req.NotAfter) {
		answer, _, err = s.acquire(q, req)
	}
	return answer, err
}

// acquire also tells what the server's clock showed, in Unix microseconds.
func (s *Store) acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, int64, error) {
	key := req.Key.String()
	limit := &notAfter{clock: &s.clock, at: req.NotAfter}
	keys, args := []string{key}, []any{req.ID.Secret(), req.TTL.Milliseconds(), limit}
	if req.Fenced {
		keys = append(keys, "{"+key+"}:fence")
		args = append(args, uint64(req.Floor), max(fenceTTL, 10*req.TTL).Milliseconds())
	}
	r, err := read(acquireScript.run(ctx, s.acquires, keys, args...))
	if err != nil {
		return tierlock.Answer{}, 0, err
	}
	s.learn(ctx, limit.sent, time.UnixMicro(r.now))
	return r.answer(limit.sent, req.TTL), r.now, nil
}

// notAfter is the argument that tells the server when to refuse. It is worked out at the
// moment it is written: by then the connection is there, and the server on it has been
// asked for its time.
type notAfter struct {
	clock *clock
	at    time.Time
	sent  time.Time // when it was written
}

// MarshalBinary is called by go-redis as it writes the request.
func (n *notAfter) MarshalBinary() ([]byte, error) {
	n.sent = time.Now()
	return strconv.AppendInt(nil, n.clock.server(n.at), 10), nil
}

// check refuses what the script could not do right.
func check(req tierlock.Request) error {
	if req.Floor > maxFloor {
		return tierlock.Invalid("floor", strconv.FormatUint(uint64(req.Floor), 10), "want a token below 2^53")
	}
	return checkTTL(req.TTL)
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return tierlock.Invalid("ttl", ttl.String(), "want 1ms or more")
	}
	return nil
}
