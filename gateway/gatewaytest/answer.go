package gatewaytest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// Answer makes every attempt of the chain that asks the store meet reason from now on, so
// that a test gets the outcome it wants; the zero Reason ends it. What the caller is told is
// what its policy makes of the reason:
//
//	ReasonHeld       failure: somebody else has every key of the chain
//	ReasonAttempt    timeout after the attempt's own time, optimistic where the policy advises it
//	ReasonDenied     system_error on a strong chain without a version guard, else optimistic
//	ReasonWrongType  system_error on every chain
//	ReasonDown       the store counts as down for every chain on it, as in an outage
//
// Nothing reaches the store, so no lock is left in it. Requests that a switch or the chain's
// health sends elsewhere do not ask the store, and other chains are served.
func (k *Kit) Answer(chain string, reason tierlock.Reason) {
	k.tb.Helper()
	if _, err := k.Chain(chain); err != nil {
		k.tb.Fatalf("gatewaytest: %v", err)
	}
	switch reason {
	case "", tierlock.ReasonHeld, tierlock.ReasonAttempt, tierlock.ReasonDenied, tierlock.ReasonWrongType, tierlock.ReasonDown:
	default:
		k.tb.Fatalf("gatewaytest: answer %q: want held, attempt_timeout, denied, wrong_type or down", reason)
	}
	k.Store.with(func() {
		if k.Store.answers == nil {
			k.Store.answers = map[string]tierlock.Reason{}
		}
		k.Store.answers[chain] = reason
	})
}

// Lose takes the lock of key away from its holder in the middle of its work, as an eviction
// or a failover does, and lets the gateway notice at once: the lock's contexts have ended
// with a cause that matches ErrLost when Lose returns, and its end is recorded as lost. The
// key is free then. It must be held on the shared tier, by this kit's gateway.
func (k *Kit) Lose(key string) {
	k.tb.Helper()
	id, ok := k.Store.holder(key)
	if !ok {
		k.tb.Fatalf("gatewaytest: lose %s: nobody holds it in the store", key)
	}
	parsed, err := tierlock.ParseKey(key)
	if err != nil {
		k.tb.Fatalf("gatewaytest: lose: %v", err)
	}
	lock, err := k.Attach(context.Background(), parsed, id)
	if err != nil {
		k.tb.Fatalf("gatewaytest: lose %s: %v", key, err)
	}
	k.Store.Lose(key)
	chain, _, err := k.ChainOf(parsed)
	if err != nil {
		k.tb.Fatalf("gatewaytest: lose: %v", err)
	}
	if err := lock.Renew(context.Background(), chain.Policy().TTL); !errors.Is(err, tierlock.ErrLost) {
		k.tb.Fatalf("gatewaytest: lose %s: the renewal that should notice says %v", key, err)
	}
}

// Occupy lets somebody else hold key in the store for so long, as another instance does: a
// call for it is answered "held", and one that waits gets it after that.
func (k *Kit) Occupy(key string, span time.Duration) {
	k.tb.Helper()
	parsed, err := tierlock.ParseKey(key)
	if err != nil {
		k.tb.Fatalf("gatewaytest: occupy: %v", err)
	}
	k.Store.with(func() {
		k.Store.grantLocked(tierlock.Request{Hold: tierlock.Hold{Key: parsed, ID: tierlock.NewRequestID(), TTL: span}}, time.Now())
	})
}

// holder is who has the key.
func (s *Store) holder(key string) (id tierlock.RequestID, ok bool) {
	s.with(func() {
		if k, err := tierlock.ParseKey(key); err == nil {
			var h held
			h, ok = s.findLocked(k, time.Now())
			id = h.id
		}
	})
	return id, ok
}

// answerTo is what [Kit.Answer] has put in the place of the store's own answer; ok is false
// where it has put none.
func (s *Store) answerTo(ctx context.Context, req tierlock.Request) (ans tierlock.Answer, err error, ok bool) {
	var reason tierlock.Reason
	s.with(func() {
		if len(s.answers) > 0 {
			_, rest, _ := strings.Cut(req.Key.String(), ":")
			chain, _, _ := strings.Cut(rest, ":")
			reason = s.answers[chain]
		}
		if reason != "" {
			s.counts.Acquire++
		}
	})
	switch reason {
	case "":
		return ans, nil, false
	case tierlock.ReasonHeld:
		return tierlock.Answer{Status: tierlock.Held, Remaining: req.TTL, Holder: tierlock.NewRequestID().Fingerprint()}, nil, true
	case tierlock.ReasonAttempt:
		f := late(ctx, time.Hour, nil)
		if fault, is := errors.AsType[*tierlock.Fault](f); is {
			fault.InDoubt = false // nothing has reached the store
		}
		return ans, f, true
	}
	return ans, &tierlock.Fault{Reason: reason, Err: errForced}, true
}

// probeAnswer refuses the probes of a store that [Kit.Answer] has made to be down. If they were
// answered, it would be back after each of them.
func (s *Store) probeAnswer() (err error) {
	s.with(func() {
		for _, reason := range s.answers {
			if reason == tierlock.ReasonDown {
				s.counts.Probe++
				err = &tierlock.Fault{Reason: reason, Err: errForced}
				return
			}
		}
	})
	return err
}

var errForced = errors.New("gatewaytest: the answer that the test asked for")
