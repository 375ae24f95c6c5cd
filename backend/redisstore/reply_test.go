package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

func TestParseAcceptsWhatTheScriptsSay(t *testing.T) {
	for name, c := range map[string]struct {
		now   any
		parts []any
		want  reply
		why   string
	}{
		"granted":                {int64(1764496800123456), []any{int64(1), int64(0), int64(7), int64(1)}, reply{status: tierlock.Granted, now: 1764496800123456, token: 7, depth: 1}, ""},
		"mine":                   {int64(5), []any{int64(2), int64(900), int64(7), int64(3)}, reply{status: tierlock.Mine, now: 5, left: 900 * time.Millisecond, token: 7, depth: 3}, ""},
		"held":                   {int64(5), []any{int64(3), int64(900), "abc", int64(0)}, reply{status: tierlock.Held, now: 5, left: 900 * time.Millisecond, holder: "abc"}, ""},
		"held by an empty value": {int64(5), []any{int64(3), int64(900), "", int64(0)}, reply{status: tierlock.Held, now: 5, left: 900 * time.Millisecond}, ""},
		"late":                   {int64(5), []any{int64(4), int64(0), int64(0), int64(0)}, reply{status: tierlock.Late, now: 5}, ""},
		"released":               {int64(0), []any{int64(5), int64(0), int64(0), int64(0)}, reply{status: tierlock.Released}, ""},
		"gone":                   {int64(0), []any{int64(6), int64(0), int64(0), int64(0)}, reply{status: tierlock.Gone}, ""},
		"refused":                {int64(5), []any{int64(0), int64(0), "WRONGTYPE of some kind", int64(0)}, reply{}, "WRONGTYPE of some kind"},
	} {
		if got, why, ok := parse(c.now, c.parts); !ok || got != c.want || why != c.why {
			t.Errorf("%s: %+v, %q, %t", name, got, why, ok)
		}
	}
}

func TestParseRefusesAnythingElse(t *testing.T) {
	for name, parts := range map[string][]any{
		"status 0 without a word": {int64(0), int64(0), "", int64(0)},
		"status 0 with a number":  {int64(0), int64(0), int64(1), int64(0)},
		"status 7":                {int64(7), int64(0), int64(0), int64(0)},
		"status below 0":          {int64(-1), int64(0), int64(0), int64(0)},
		"status no number":        {"OK", int64(0), int64(0), int64(0)},
		"holder of no held":       {int64(1), int64(1), "abc", int64(0)},
		"held without a holder":   {int64(3), int64(1), int64(1), int64(0)},
		"text in place of left":   {int64(3), "1", "abc", int64(0)},
		"text in place of depth":  {int64(1), int64(1), int64(1), "abc"},
		"nil":                     {nil, nil, nil, nil},
		"a float":                 {1.0, int64(0), int64(0), int64(0)},
	} {
		if got, why, ok := parse(int64(5), parts); ok {
			t.Errorf("%s: accepted as %+v, %q", name, got, why)
		}
	}
	if got, why, ok := parse("5", []any{int64(6), int64(0), int64(0), int64(0)}); ok {
		t.Errorf("text in place of now: accepted as %+v, %q", got, why)
	}
}

// A reply that has not four parts for each operation is taken for none.
func TestReplyOfAnotherLengthIsBroken(t *testing.T) {
	o := op{}
	c := releaseScript.call(place{node: new(node)}, nil, &o, &o)
	for _, parts := range []int{0, 1, 5, 8, 10, 13} {
		cmd := redis.NewCmd(t.Context())
		cmd.SetVal(slices.Repeat([]any{int64(5)}, parts))
		_, err := c.reply(cmd, 1)
		var fault *tierlock.Fault
		if !errors.As(err, &fault) || fault.Reason != tierlock.ReasonBroken || !fault.InDoubt {
			t.Errorf("%d parts: %v, want broken and in doubt", parts, err)
		}
	}
}

func TestAnswerTakesDriftOff(t *testing.T) {
	sent := time.Now()
	a := reply{status: tierlock.Granted}.answer(sent, 10*time.Second)
	if left := a.Until.Sub(sent); left != 9898*time.Millisecond {
		t.Errorf("10 s were told as %v, want 1 %% and 2 ms less", left)
	}
}

func TestAnswerHasNoTimeForAHoldThatNeverExpires(t *testing.T) {
	sent := time.Now()
	if a := (reply{status: tierlock.Held, left: -time.Millisecond}).answer(sent, time.Second); a.Remaining != 0 {
		t.Errorf("held: remaining %v, want 0 for unknown", a.Remaining)
	}
	if a := (reply{status: tierlock.Mine, left: -time.Millisecond}).answer(sent, time.Second); !a.Until.After(sent) {
		t.Errorf("mine: until %v before it was asked", a.Until.Sub(sent))
	}
}

func FuzzParseKeepsToTheStatuses(f *testing.F) {
	f.Add(int64(5), int64(3), int64(900), "abc", int64(1), true)
	f.Fuzz(func(t *testing.T, now, status, left int64, word string, depth int64, text bool) {
		parts := []any{status, left, any(depth), depth}
		if text {
			parts[2] = word
		}
		got, why, ok := parse(now, parts)
		if ok && (got.status > tierlock.Gone || got.status == 0 && why == "" || got.holder != "" && got.status != tierlock.Held) {
			t.Errorf("accepted %+v, %q", got, why)
		}
	})
}
