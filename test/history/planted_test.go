package history

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// planted puts a defect between a gateway and its store, for the checks to find.
func planted(store tierlock.Backend, d defect) tierlock.Backend {
	if d == "" || d == sound || d == grantsAtOnce { // which is its chain's
		return store
	}
	return &liar{Backend: store, defect: d, swallowed: map[tierlock.RequestID]bool{}, holds: map[tierlock.Key]tierlock.Hold{}}
}

// liar is a store with a defect.
type liar struct {
	tierlock.Backend
	defect defect

	mu        sync.Mutex
	refused   int            // guarded by mu
	grants    int            // guarded by mu
	last      tierlock.Token // guarded by mu
	swallowed map[tierlock.RequestID]bool
	holds     map[tierlock.Key]tierlock.Hold // granted last; guarded by mu
}

const every = 10 // of that many answers one is a lie

func (l *liar) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	sent := time.Now()
	answer, err := l.Backend.Acquire(ctx, req)
	if err != nil {
		return answer, err
	}
	switch granted, nth := answer.Status == tierlock.Granted, l.count(answer, req.Hold); {
	case l.defect == answersLate && nth%every == 0:
		<-time.After(2 * time.Second) // a busy machine explains a part of it away
	case l.defect == countsFromTold && granted && nth%2 == 0:
		<-time.After(150 * time.Millisecond)
		answer.Until = answer.Until.Add(time.Since(sent))
	case l.defect == retriesFresh && granted && nth%every == 0:
		again := req
		again.ID = tierlock.NewRequestID()
		return l.Backend.Acquire(ctx, again)
	case l.defect == releasesOthers && answer.Status == tierlock.Held && nth%every == 0:
		_, _ = l.Backend.Release(ctx, l.holdOf(req.Key))
	case l.defect == grantsTwice && answer.Status == tierlock.Held && nth%every == 0:
		token := tierlock.Token(time.Now().UnixMicro())
		return tierlock.Answer{Status: tierlock.Granted, Exclusive: true, Token: token, Until: sent.Add(req.TTL)}, nil
	case l.defect == repeatsToken && granted:
		answer.Token = l.again(answer.Token)
	case l.defect == leavesOrphans && granted && nth%every == 0:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.swallowed[req.ID] = true
		return tierlock.Answer{}, &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true}
	}
	return answer, nil
}

// count remembers what was granted, and tells the how manieth of its kind the answer is.
func (l *liar) count(answer tierlock.Answer, hold tierlock.Hold) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer.Status != tierlock.Granted {
		l.refused++
		return l.refused
	}
	l.grants++
	l.holds[hold.Key] = hold
	return l.grants
}

func (l *liar) holdOf(key tierlock.Key) tierlock.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds[key]
}

// again is every second time the token of the time before.
func (l *liar) again(token tierlock.Token) tierlock.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last
	if last != 0 {
		l.last = 0
		return last
	}
	l.last = token
	return token
}

// Release forgets those whose grant nobody heard of.
func (l *liar) Release(ctx context.Context, hold tierlock.Hold) (tierlock.Answer, error) {
	l.mu.Lock()
	forgotten := l.swallowed[hold.ID]
	l.mu.Unlock()
	if forgotten {
		return tierlock.Answer{Status: tierlock.Gone}, nil
	}
	return l.Backend.Release(ctx, hold)
}
