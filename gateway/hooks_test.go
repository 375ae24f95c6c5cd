package gateway_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

func TestJoinTellsEachInOrder(t *testing.T) {
	var told []string
	say := func(s string) gateway.Hooks {
		return gateway.Hooks{Lost: func(gateway.LostInfo) { told = append(told, s) }}
	}
	j := gateway.Join(say("a"), gateway.Hooks{}, say("b"), say("c"))
	j.Lost(gateway.LostInfo{})
	if !slices.Equal(told, []string{"a", "b", "c"}) {
		t.Errorf("told %v", told)
	}
	told = nil
	func() {
		defer func() { _ = recover() }()
		gateway.Join(say("a"), gateway.Hooks{Lost: func(gateway.LostInfo) { panic("b's own fault") }}, say("c")).Lost(gateway.LostInfo{})
	}()
	if !slices.Equal(told, []string{"a", "c"}) {
		t.Errorf("told %v where the second panics", told)
	}
	if j.Acquired != nil || j.Reported != nil {
		t.Error("a hook nobody set is on")
	}
}

// Every call with a verdict is told once, whatever the verdict was.
func TestEveryVerdictIsToldOnce(t *testing.T) {
	var hook heard[gateway.AcquireInfo]
	bubble(t, weak(), func(t *testing.T, k one) {
		l := k.must("a")
		k.ask("a")
		k.Force("c", tierlock.ModeReject)
		k.ask("b")
		k.Force("c", tierlock.ModeOptimistic)
		k.ask("b")
		_, _ = k.TryLock(t.Context(), "not an id")
		_ = l.Unlock(t.Context())
		var outcomes []tierlock.Outcome
		for _, i := range hook.told() {
			outcomes = append(outcomes, i.Verdict.Outcome)
			if i.Chain != "c" || i.Key.IsZero() || i.Ordered != (i.Verdict.Reason == tierlock.ReasonForced) {
				t.Errorf("%+v", i)
			}
		}
		if !slices.Equal(outcomes, []tierlock.Outcome{tierlock.Success, tierlock.Failure, tierlock.SystemError, tierlock.Timeout}) {
			t.Errorf("told %v", outcomes)
		}
	}, gateway.Hooks{Acquired: hook.hear})
}

func TestOnLostIsAWord(t *testing.T) {
	for _, want := range []gateway.OnLost{gateway.Cancel, gateway.Fence, gateway.Reconcile} {
		text, err := want.MarshalText()
		var got gateway.OnLost
		if err != nil || got.UnmarshalText(text) != nil || got != want || got.String() != string(text) {
			t.Errorf("%v: %q, %v, read back as %v", uint8(want), text, err, got)
		}
	}
	var o gateway.OnLost
	for _, text := range []string{"", "invalid", "Fence"} {
		if err := o.UnmarshalText([]byte(text)); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := o.MarshalText(); err == nil || o.String() != "invalid" {
		t.Error("the zero OnLost has a word")
	}
}
