package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
)

// A resource that refuses the token of a lock in hand has let a later holder in.
func TestARefusedTokenEndsTheLockAsLost(t *testing.T) {
	var hook heard[gateway.LostInfo]
	bubble(t, strong(), func(t *testing.T, k one) {
		var held context.Context
		err := k.Do(t.Context(), "a", func(ctx context.Context, g tierlock.Grant) error {
			held = ctx
			return fmt.Errorf("sell: %w", &guard.StaleError{Key: g.Key, Token: g.Token, Mark: g.Token + 1})
		})
		if !errors.Is(err, guard.ErrStale) || !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("Do: %v", err)
		}
		if cause := context.Cause(held); !errors.Is(cause, tierlock.ErrLost) || !errors.Is(cause, guard.ErrStale) {
			t.Errorf("the context ended with %v", cause)
		}
		if told := hook.told(); len(told) != 1 || !errors.Is(told[0].Cause, guard.ErrStale) {
			t.Errorf("the hook was told %v", told)
		}
		if tier, v := k.ask("a"); tier != tierlock.Shared {
			t.Errorf("the store still has the key: %v", v)
		}
		events := k.Audit.Events()[:2]
		if last := events[len(events)-1]; last.Type != audit.TypeEnd || last.How != audit.Lost || last.Outcome != audit.RolledBack {
			t.Errorf("last event %+v, want an end: lost, rolled back", last)
		}
	}, gateway.Hooks{Lost: hook.hear})
}

// What refuses something else says nothing of this lock.
func TestARefusalOfAnotherLockEndsNothing(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		l, other := k.must("a"), k.must("b")
		g := l.Grant()
		for name, err := range map[string]error{
			"nil":           nil,
			"another error": errors.New("boom"),
			"a version":     guard.ErrStale,
			"another key":   &guard.StaleError{Key: other.Grant().Key, Token: g.Token, Mark: g.Token + 1},
			"another token": &guard.StaleError{Key: g.Key, Token: g.Token - 1, Mark: g.Token},
			"no token":      &guard.StaleError{Key: g.Key, Mark: g.Token},
		} {
			if l.Refused(err) {
				t.Errorf("%s: taken for a refusal of this lock", name)
			}
		}
		if held, err := l.IsHeld(t.Context()); !held || err != nil {
			t.Errorf("held %t, %v", held, err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if !other.Refused(&guard.StaleError{Key: other.Grant().Key, Token: other.Grant().Token}) {
			t.Error("a refusal of this lock is not seen")
		}
		if err := other.Unlock(t.Context()); !errors.Is(err, tierlock.ErrLost) {
			t.Errorf("unlock of a refused lock: %v", err)
		}
		if (*gateway.Lock)(nil).Refused(guard.ErrStale) {
			t.Error("a nil lock was refused")
		}
	})
}
