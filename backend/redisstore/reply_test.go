package redisstore

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

func TestParseAcceptsWhatTheScriptsSay(t *testing.T) {
	for name, c := range map[string]struct {
		parts []any
		want  reply
	}{
		"granted":  {[]any{int64(1), int64(1764496800123456), int64(0), int64(7)}, reply{status: tierlock.Granted, now: 1764496800123456, token: 7}},
		"mine":     {[]any{int64(2), int64(5), int64(900), int64(7)}, reply{status: tierlock.Mine, now: 5, left: 900 * time.Millisecond, token: 7}},
		"held":     {[]any{int64(3), int64(5), int64(900), "abc"}, reply{status: tierlock.Held, now: 5, left: 900 * time.Millisecond, holder: "abc"}},
		"late":     {[]any{int64(4), int64(5)}, reply{status: tierlock.Late, now: 5}},
		"released": {[]any{int64(5)}, reply{status: tierlock.Released}},
		"gone":     {[]any{int64(6)}, reply{status: tierlock.Gone}},
	} {
		if got, ok := parse(c.parts); !ok || got != c.want {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

func TestParseRefusesAnythingElse(t *testing.T) {
	for name, parts := range map[string][]any{
		"nothing":              {},
		"status 0":             {int64(0)},
		"status 7":             {int64(7)},
		"status no number":     {"OK"},
		"holder of no held":    {int64(1), int64(1), int64(1), "abc"},
		"text in place of now": {int64(3), "1", int64(1), "abc"},
		"too many parts":       {int64(1), int64(1), int64(1), int64(1), int64(1)},
		"nil":                  {nil},
		"a float":              {1.0},
	} {
		if got, ok := parse(parts); ok {
			t.Errorf("%s: accepted as %+v", name, got)
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
	f.Add(int64(3), int64(5), int64(900), "abc", uint8(4))
	f.Fuzz(func(t *testing.T, status, now, left int64, last string, parts uint8) {
		all := []any{status, now, left, last, last}
		got, ok := parse(all[:int(parts)%(len(all)+1)])
		if ok && (got.status < tierlock.Granted || got.status > tierlock.Gone || got.holder != "" && got.status != tierlock.Held) {
			t.Errorf("accepted %+v", got)
		}
	})
}
