package gateway_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

func TestScheduleReadsWhatItWrites(t *testing.T) {
	for text, want := range map[string]string{
		"exp":                               "exp(20ms, 5, cap 2s)",
		"exp(20ms,5,2s)":                    "exp(20ms, 5, cap 2s)",
		" exp( 10ms , 7, cap 500ms ) ":      "exp(10ms, 7, cap 500ms)",
		"fixed(50ms,3)+exp":                 "fixed(50ms, 3) + exp(20ms, 5, cap 2s)",
		"fixed(50ms, 3) + exp(40ms, 2, 1s)": "fixed(50ms, 3) + exp(40ms, 2, cap 1s)",
	} {
		var s gateway.Schedule
		if err := s.UnmarshalText([]byte(text)); err != nil || s.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, s, err, want)
		}
		var again gateway.Schedule
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%q: reads its own text as %v, %v", text, again, err)
		}
	}
	if zero := (gateway.Schedule{}).String(); zero != "exp(20ms, 5, cap 2s)" {
		t.Errorf("zero: %s", zero)
	}
}

func TestScheduleRefusesNonsense(t *testing.T) {
	for _, text := range []string{
		"", "linear(20ms)", "exp()", "exp(20ms)", "exp(20ms, 5)", "exp(20, 5, 2s)", "exp(20ms, 0, 2s)", "exp(20ms, -1, 2s)", "exp(20ms, 5.5, 2s)",
		"exp(20ms, 5, 2s", "exp 20ms, 5, 2s)", "exp(20ms, 5, cap)", "exp(0s, 5, 2s)", "exp(20ms, 101, 2s)", "exp(20ms, 5, 3s)", "exp(20ms, 5, 10ms)",
		"fixed(50ms, 3)", "fixed(50ms) + exp", "fixed(50ms, 0) + exp", "fixed(3s, 3) + exp", "exp + exp", "exp + fixed(50ms, 3)",
	} {
		s := gateway.Schedule{First: time.Second}
		if err := s.UnmarshalText([]byte(text)); !errors.Is(err, tierlock.ErrInvalid) || s.First != time.Second {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	p := strong()
	p.Schedule.Cap = time.Hour
	var invalid *tierlock.InvalidError
	if err := p.Validate(); !errors.As(err, &invalid) || invalid.Field != "wait_schedule" {
		t.Errorf("a policy with it: %v", err)
	}
}

// Where the store wakes nobody, tries come as the schedule says and no more often; the
// call still ends with its wait.
func TestTriesFollowTheSchedule(t *testing.T) {
	ms := time.Millisecond
	for name, c := range map[string]struct {
		schedule gateway.Schedule
		wait     time.Duration
		tries    []time.Duration // from the start; each pause may be a quarter longer or shorter
	}{
		"default":   {gateway.Schedule{}, 2 * time.Second, []time.Duration{0, 20 * ms, 60 * ms, 140 * ms, 300 * ms}},
		"flow":      {strong().Flow().Schedule, 2 * time.Second, []time.Duration{0, 20 * ms, 60 * ms, 140 * ms, 300 * ms, 620 * ms, 1260 * ms}},
		"capped":    {gateway.Schedule{First: 20 * ms, Tries: 5, Cap: 40 * ms}, time.Second, []time.Duration{0, 20 * ms, 60 * ms, 100 * ms, 140 * ms}},
		"fixed too": {gateway.Schedule{Fixed: 50 * ms, Times: 3, First: 20 * ms, Tries: 3, Cap: time.Second}, time.Second, []time.Duration{0, 50 * ms, 100 * ms, 150 * ms, 170 * ms, 210 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			p := strong()
			p.Schedule = c.schedule
			bubble(t, p, func(t *testing.T, k one) {
				k.must("a")
				began, before := time.Now(), k.Store.Counts().Acquire
				asked := make([]int, len(c.tries)) // by the time that each try must have been made
				for i, at := range c.tries {
					time.AfterFunc(at*5/4+ms, func() { asked[i] = k.Store.Counts().Acquire - before })
				}
				_, err := k.Lock(t.Context(), "a", gateway.WithWait(c.wait))
				if took := time.Since(began); !errors.Is(err, tierlock.ErrHeld) || took != c.wait {
					t.Errorf("%v after %v", err, took)
				}
				synctest.Wait()
				for i, n := range asked {
					if n <= i {
						t.Errorf("%d tries by %v, want %d", n, c.tries[i]*5/4, i+1)
					}
				}
				if n := k.Store.Counts().Acquire - before; n != len(c.tries) {
					t.Errorf("%d tries, want %d", n, len(c.tries))
				}
			})
		})
	}
}
