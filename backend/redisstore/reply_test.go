package redisstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// said is what the replies of a call of so many operations say.
func said(ops int, val any) ([]reply, error) {
	c := call{ops: ops}
	cmd := redis.NewCmd(context.Background())
	cmd.SetVal(val)
	return c.replies(cmd, nil)
}

func TestRepliesSayWhatTheScriptsSay(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []reply
	}{
		"granted":                 {"1764496800123456 1", []reply{{status: tierlock.Granted, now: 1764496800123456, depth: 1}}},
		"granted with a token":    {"5 1:0:1:1:7", []reply{{status: tierlock.Granted, now: 5, token: 7, depth: 1}}},
		"granted again":           {"5 1:900:1:1:7", []reply{{status: tierlock.Granted, now: 5, left: 900 * time.Millisecond, token: 7, depth: 1}}},
		"granted again, unfenced": {"5 1:900:1:0:", []reply{{status: tierlock.Granted, now: 5, left: 900 * time.Millisecond, depth: 1}}},
		"mine":                    {"5 2:900:3:16:1764496800123456", []reply{{status: tierlock.Mine, now: 5, left: 900 * time.Millisecond, token: 1764496800123456, depth: 3}}},
		"mine without an end":     {"0 2:-1:1:0:", []reply{{status: tierlock.Mine, left: -time.Millisecond, depth: 1}}},
		"held":                    {"5 3:900:0:3:abc", []reply{{status: tierlock.Held, now: 5, left: 900 * time.Millisecond, holder: "abc"}}},
		"held by an empty value":  {"5 3:900:0:0:", []reply{{status: tierlock.Held, now: 5, left: 900 * time.Millisecond}}},
		"held by what looks like a reply, and one more": {"5 3:900:0:9: 6 1:0::\x00 4", []reply{{status: tierlock.Held, now: 5, left: 900 * time.Millisecond, holder: " 6 1:0::\x00"}, {status: tierlock.Late, now: 5}}},
		"late":     {"5 4", []reply{{status: tierlock.Late, now: 5}}},
		"released": {"0 5 5", []reply{{status: tierlock.Released}, {status: tierlock.Released}}},
		"gone":     {"0 6", []reply{{status: tierlock.Gone}}},
		"refused":  {"5 0:0:0:22:WRONGTYPE of some kind 1", []reply{{now: 5, why: "WRONGTYPE of some kind"}, {status: tierlock.Granted, now: 5, depth: 1}}},
	} {
		if got, err := said(len(c.want), c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// A reply that is not what a script says is taken for none, and nobody knows what happened.
func TestRepliesOfAnotherShapeAreBroken(t *testing.T) {
	for name, val := range map[string]any{
		"nothing":                  "",
		"no operation":             "5",
		"one too few":              "5 1",
		"one too many":             "5 1 1 1",
		"something behind":         "5 1 1:",
		"a space behind":           "5 1 1 ",
		"no time":                  " 1 1",
		"text in place of time":    "a 1 1",
		"status 7":                 "5 1 7",
		"a longer status":          "5 1 11",
		"mine, and no more":        "5 1 2",
		"held, and no more":        "5 1 3",
		"refused, and no more":     "5 1 0",
		"refused without a word":   "5 1 0:0:0:0:",
		"cut in the word":          "5 1 3:900:0:32:abc",
		"cut before the word":      "5 1 3:900:0:32",
		"cut before the length":    "5 1 3:900:0:",
		"cut before the depth":     "5 1 3:900",
		"length below 0":           "5 1 3:900:0:-1:abc",
		"depth below 0":            "5 1 2:900:-1:0:",
		"text in place of left":    "5 1 3:a:0:3:abc",
		"text in place of a token": "5 1 1:0:1:3:abc",
		"token below 0":            "5 1 1:0:1:2:-1",
		"a word for released":      "0 5 5:0:0:3:abc",
		"late at full":             "5 1 4:0:0:0:",
		"gone at full":             "0 6 6:0:0:0:",
		"granted at full":          "5 1 1:0:1:0:",
		"a number":                 int64(5),
		"an array":                 []any{int64(5), int64(1), int64(0), int64(0), int64(1)},
		"none":                     nil,
	} {
		got, err := said(2, val)
		var fault *tierlock.Fault
		if len(got) != 0 || !errors.As(err, &fault) || fault.Reason != tierlock.ReasonBroken || !fault.InDoubt {
			t.Errorf("%s: %+v, %v, want broken and in doubt", name, got, err)
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
	if a := (reply{status: tierlock.Held, left: -time.Millisecond}).answer(sent, time.Second); a.Remaining != 0 || !a.Endless {
		t.Errorf("held: remaining %v, endless %t, want 0 and true", a.Remaining, a.Endless)
	}
	if a := (reply{status: tierlock.Mine, left: -time.Millisecond}).answer(sent, time.Second); !a.Until.After(sent) {
		t.Errorf("mine: until %v before it was asked", a.Until.Sub(sent))
	}
}

func FuzzRepliesKeepToTheStatuses(f *testing.F) {
	f.Add("5 1", 1)
	f.Add("5 3:900:0:3:abc 0:0:0:5:WRONG", 2)
	f.Add("0 2:-1:3:1:7 6", 2)
	f.Fuzz(func(t *testing.T, text string, ops int) {
		ops = min(max(ops, 1), maxOps)
		got, err := said(ops, text)
		if err == nil && len(got) != ops || err != nil && len(got) != 0 {
			t.Errorf("%d replies of %d, %v", len(got), ops, err)
		}
		for _, r := range got {
			if r.status > tierlock.Gone || (r.status == 0) != (r.why != "") || r.holder != "" && r.status != tierlock.Held {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}
