package breaker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sensor returns a new one, closed with the test.
func sensor(t testing.TB, cfg breaker.Config) *breaker.Sensor {
	t.Helper()
	s, err := breaker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// run starts the probe loop; it ends with the test.
func run(t testing.TB, s *breaker.Sensor) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// enter must succeed at once, on all of the wire.
func enter(t testing.TB, s *breaker.Sensor) breaker.Pass {
	t.Helper()
	p, err := s.Enter(t.Context(), breaker.Ask{Strong: true})
	if err != nil {
		t.Fatalf("enter: %v", err)
	}
	return p
}

// soon is an ask of a strong chain with an attempt ahead of it.
func soon() breaker.Ask {
	return breaker.Ask{Strong: true, Deadline: time.Now().Add(200 * time.Millisecond)}
}

func fault(r tierlock.Reason) error { return &tierlock.Fault{Reason: r} }

// fails lets n operations fail for r, one after another.
func fails(t testing.TB, s *breaker.Sensor, n int, r tierlock.Reason) {
	t.Helper()
	for range n {
		enter(t, s).Exit(fault(r))
	}
}

func wantErr(t testing.TB, s *breaker.Sensor, ask breaker.Ask, want error) {
	t.Helper()
	p, err := s.Enter(t.Context(), ask)
	if !errors.Is(err, want) {
		t.Errorf("enter: %v, want %v", err, want)
	}
	p.Exit(nil)
}
