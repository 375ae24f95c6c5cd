package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// errApart says that a question which mints a token was not put: the lock and its fence
// record are in two places.
var errApart = errors.New("the lock and its fence record are in two places")

// acquireInSteps is a fenced acquire while a Cluster moves the lock's slot, and no script
// may see both the lock and its fence record. Each step names one key:
//  1. a stand-in, a request id that nobody else knows, takes the lock till the deadline;
//  2. a token is minted;
//  3. the request takes the place of its stand-in, if that still has the lock.
//
// So the token is minted while nobody else can be granted the lock, and grants keep the
// order of their tokens. A stand-in that is left alone ends by itself. Only the last step
// can leave the request in doubt.
func (s *Store) acquireInSteps(q *question, req tierlock.Request) (tierlock.Answer, error) {
	standIn := req
	standIn.ID = tierlock.NewRequestID()
	standIn.TTL = min(req.TTL, time.Until(q.deadline).Truncate(time.Millisecond)+2*time.Millisecond)
	standIn.Fenced, standIn.WaitTill = false, time.Time{}
	answer, err := s.acquire(q, standIn)
	switch {
	case err != nil:
		return tierlock.Answer{}, certain(err)
	case answer.Status == tierlock.Held && answer.Holder == req.ID.Fingerprint():
		// A repeat. Whether the token of its grant was minted cannot be told here.
		return tierlock.Answer{}, &tierlock.Fault{Reason: tierlock.ReasonAttempt, Err: errApart}
	case answer.Status != tierlock.Granted:
		return answer, nil
	}
	answer, err = s.passInSteps(q, standIn.Hold, req)
	if err == nil && answer.Status == tierlock.Gone { // its time was over
		return tierlock.Answer{}, fault(context.DeadlineExceeded)
	}
	return answer, err
}

// passInSteps is a fenced hand-over under the same circumstances: from has the lock while
// the token is minted, or nothing is handed over.
func (s *Store) passInSteps(q *question, from tierlock.Hold, to tierlock.Request) (tierlock.Answer, error) {
	token, err := s.mint(q, to)
	if err != nil {
		return tierlock.Answer{}, certain(err)
	}
	to.Fenced = false
	answer, err := s.pass(q, from, to)
	if err == nil && answer.Status == tierlock.Granted {
		answer.Token = token
	}
	return answer, err
}

// renewApart is a renewal, under the same circumstances, of a lock that was entered: first
// of the record of its entries, then of the lock. A record that outlives its lock does no
// harm; a lock that outlived its record would be free with the first entry given back. So
// the record gets twice the ttl: a renewal of the lock that comes late finds it within one,
// and brings one more.
func (s *Store) renewApart(q *question, hold tierlock.Hold) (answer tierlock.Answer, err error) {
	hold.Entry = 0
	err = s.send(q, hold.Key, func(to place) error {
		r := riderFor(hold)
		defer r.free()
		r.deepen()
		return to.outlast(q, string(r.depth), 2*hold.TTL)
	})
	if err != nil {
		return tierlock.Answer{}, certain(err)
	}
	err = s.send(q, hold.Key, func(to place) error {
		r := riderFor(hold)
		defer r.free()
		if err := to.node.controlling.alone(q, to, &renewScript, r); err != nil {
			return err
		}
		if r.reply.entered() {
			r.reply.depth = 1
		}
		answer = r.reply.answer(r.sent, hold.TTL)
		return nil
	})
	return answer, err
}

// outlast has a record last at least ttl from now; where there is none, nothing is done.
func (p place) outlast(q *question, record string, ttl time.Duration) error {
	ctx := q.context()
	cmd := redis.NewIntCmd(ctx, "pexpire", record, ttl.Milliseconds(), "gt")
	_, _ = p.node.control.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		if p.asking {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
		}
		return pipe.Process(ctx, cmd)
	})
	if err := cmd.Err(); err != nil {
		return fault(err)
	}
	return nil
}

// mint has a token made for req.
func (s *Store) mint(q *question, req tierlock.Request) (token tierlock.Token, err error) {
	err = s.send(q, req.Key, func(to place) error {
		r := to.node.wanted(req)
		defer r.free()
		r.key = string(r.fence)
		r.shape, r.limit = 0, notAfter{}
		err := to.node.acquiring.alone(q, to, &mintScript, r)
		token = r.reply.token
		return err
	})
	return token, err
}

// certain is a fault of a step that changes nothing for the request itself.
func certain(err error) error {
	f, ok := errors.AsType[*tierlock.Fault](err)
	if !ok {
		return err
	}
	return &tierlock.Fault{Reason: f.Reason, Err: f.Err}
}
