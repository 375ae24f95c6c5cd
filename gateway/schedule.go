package gateway

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// Schedule is how a waiting call spaces its tries where nobody tells it that the key is
// free. Tries that are used up leave it waiting for a hand-over inside the process until
// its wait ends. Every pause is jittered by a quarter. A store that wakes its waiters needs
// none of this.
//
// Its text is "exp(20ms, 5, cap 2s)": five tries, the first pause of 20 ms, doubled each
// time up to 2 s; or "fixed(50ms, 3) + exp(20ms, 5, cap 2s)": three pauses of 50 ms before
// that. "exp" alone stands for the default. The zero Schedule is the default.
type Schedule struct {
	Fixed time.Duration // pauses of one length, first of all
	Times int           // so many of them; 0: none
	First time.Duration // then pauses that double: the first ...
	Tries int           // ... for so many tries, the one they begin with included ...
	Cap   time.Duration // ... none longer than this
}

// defaultSchedule is from the requirements: 20 ms doubling, five tries, at most 2 s apart.
// They fill the default wait of 300 ms to the millisecond.
var defaultSchedule = Schedule{First: 20 * time.Millisecond, Tries: 5, Cap: 2 * time.Second}

// flowTries are as many as fit into the wait of 2 s of [Policy.Flow].
const flowTries = 8

const (
	leastPause = time.Millisecond
	mostTries  = 100
)

func (s Schedule) orDefault() Schedule {
	if s == (Schedule{}) {
		return defaultSchedule
	}
	return s
}

// pause is how long to wait after so many tries, not jittered; false when they are used up.
func (s Schedule) pause(tries int) (time.Duration, bool) {
	if tries <= s.Times {
		return s.Fixed, true
	}
	doubled := tries - s.Times
	if doubled >= s.Tries {
		return 0, false
	}
	pause := s.First
	for ; doubled > 1 && pause < s.Cap; doubled-- {
		pause *= 2
	}
	return min(pause, s.Cap), true
}

// String returns the text that UnmarshalText reads.
func (s Schedule) String() string {
	s = s.orDefault()
	exp := fmt.Sprintf("exp(%v, %d, cap %v)", s.First, s.Tries, s.Cap)
	if s.Times > 0 {
		return fmt.Sprintf("fixed(%v, %d) + %s", s.Fixed, s.Times, exp)
	}
	return exp
}

// MarshalText returns String.
func (s Schedule) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what String writes; spaces, and the word cap, may be left out.
func (s *Schedule) UnmarshalText(text []byte) error {
	bad := tierlock.Invalid("wait_schedule", string(text), "want exp(20ms, 5, cap 2s), or fixed(50ms, 3) + exp(20ms, 5, cap 2s), or exp for the default")
	fixed, exp, both := strings.Cut(string(text), "+")
	if !both {
		fixed, exp = "", fixed
	}
	got := defaultSchedule
	args, ok := called(exp, "exp")
	switch {
	case !ok:
		return bad
	case len(args) == 0:
	case len(args) != 3, !span(args[0], &got.First), !number(args[1], &got.Tries), !span(strings.TrimPrefix(args[2], "cap"), &got.Cap):
		return bad
	}
	if both {
		args, ok := called(fixed, "fixed")
		if !ok || len(args) != 2 || !span(args[0], &got.Fixed) || !number(args[1], &got.Times) {
			return bad
		}
	}
	if err := got.validate(); err != nil {
		return err
	}
	*s = got
	return nil
}

// called takes "name(a, b)" apart; "name" alone has no arguments.
func called(text, name string) (args []string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), name)
	if !ok || rest == "" {
		return nil, ok
	}
	inner, opened := strings.CutPrefix(rest, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	args = strings.Split(inner, ",")
	for i := range args {
		args[i] = strings.TrimSpace(args[i])
	}
	return args, opened && closed
}

func span(text string, d *time.Duration) bool {
	got, err := time.ParseDuration(strings.TrimSpace(text))
	*d = got
	return err == nil
}

func number(text string, n *int) bool {
	got, err := strconv.Atoi(text)
	*n = got
	return err == nil && got > 0
}

// validate names the first rule that s breaks.
func (s Schedule) validate() error {
	bad := func(rule string) error { return tierlock.Invalid("wait_schedule", s.String(), rule) }
	switch {
	case s == Schedule{}:
		return nil
	case s.Times < 0 || s.Times > mostTries || s.Tries < 1 || s.Tries > mostTries:
		return bad(fmt.Sprintf("want 1 to %d tries", mostTries))
	case s.Times > 0 && (s.Fixed < leastPause || s.Fixed > maxWait):
		return bad(fmt.Sprintf("want a fixed pause of %v to %v", leastPause, maxWait))
	case s.First < leastPause || s.Cap < s.First || s.Cap > maxWait:
		return bad(fmt.Sprintf("want a first pause of at least %v, and a cap from it to %v", leastPause, maxWait))
	}
	return nil
}
