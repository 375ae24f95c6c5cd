package history

import (
	"context"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

// planted puts a defect between a gateway and its store, for the checks to find.
func planted(store tierlock.Backend, d defect) tierlock.Backend {
	if d == "" || d == sound {
		return store
	}
	return &liar{Backend: store, defect: d, swallowed: map[tierlock.RequestID]bool{}}
}

// liar is a store with a defect.
type liar struct {
	tierlock.Backend
	defect defect

	mu        sync.Mutex
	asked     int            // guarded by mu
	grants    int            // guarded by mu
	last      tierlock.Token // guarded by mu
	swallowed map[tierlock.RequestID]bool
}

const every = 10 // of that many answers one is a lie

func (l *liar) Acquire(ctx context.Context, req tierlock.Request) (tierlock.Answer, error) {
	sent := time.Now()
	answer, err := l.Backend.Acquire(ctx, req)
	if err != nil {
		return answer, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	lie := l.asked%every == 0
	granted := answer.Status == tierlock.Granted
	if granted {
		l.grants++
	}
	switch {
	case l.defect == answersLate && lie:
		<-time.After(2 * time.Second) // a busy machine explains a part of it away
	case l.defect == grantsTwice && answer.Status == tierlock.Held && lie:
		token := tierlock.Token(time.Now().UnixMicro())
		return tierlock.Answer{Status: tierlock.Granted, Exclusive: true, Token: token, Until: sent.Add(req.TTL)}, nil
	case l.defect == repeatsToken && granted && l.last != 0:
		answer.Token, l.last = l.last, 0
	case l.defect == leavesOrphans && granted && l.grants%every == 0:
		l.swallowed[req.ID] = true
		return tierlock.Answer{}, &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true}
	case granted:
		l.last = answer.Token
	}
	return answer, nil
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
