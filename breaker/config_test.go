package breaker_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/breaker"
)

func TestNewReportsEveryFaultAtOnce(t *testing.T) {
	_, err := breaker.New(breaker.Config{Wire: -1, Reserved: 1, Attempt: -1, Failures: -1, Silence: -1, Open: -1, ProbeEvery: -1, ProbeFirst: -1})
	if !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatal(err)
	}
	var fields []string
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		inv, ok := errors.AsType[*tierlock.InvalidError](e)
		if !ok {
			t.Fatal(e)
		}
		fields = append(fields, inv.Field)
	}
	if want := []string{"wire", "reserved", "attempt", "failures", "silence", "open", "probe_every", "probe_first"}; !slices.Equal(fields, want) {
		t.Errorf("faults %v, want %v", fields, want)
	}
	if _, err := breaker.New(breaker.Config{Reserved: math.NaN()}); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("reserved NaN: %v", err)
	}
}

func TestZeroConfigIsTheDefault(t *testing.T) {
	s := sensor(t, breaker.Config{})
	if s.Limit() != 1024 {
		t.Errorf("limit %d", s.Limit())
	}
	if r := s.Read(time.Now()); r != (breaker.Reading{}) {
		t.Errorf("a new sensor reads %+v", r)
	}
}
