package trace

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tierlock/tierlock"
)

// Window says which part of a trace is replayed and how fast.
type Window struct {
	From  time.Time     // first moment; zero: the first event
	For   time.Duration // length in the trace's own time; zero: to the end
	Speed float64       // trace seconds per second; zero: 1
}

// Validate reports every fault at once.
func (w Window) Validate() error {
	var errs []error
	if w.For < 0 {
		errs = append(errs, tierlock.Invalid("for", w.For.String(), "must not be negative"))
	}
	if w.Speed < 0 || w.Speed > 1e6 {
		errs = append(errs, tierlock.Invalid("speed", "", "want 0 (real time) to 1000000"))
	}
	return errors.Join(errs...)
}

// Replay calls deliver with every event of the window, each at its moment, from one
// goroutine. A deliver that blocks makes the rest late; nothing is left out. It returns the
// number of events delivered, at the end of the window or when ctx ends.
func Replay(ctx context.Context, r *Reader, w Window, deliver func(Event)) (int, error) {
	if w.Speed == 0 {
		w.Speed = 1
	}
	began, n := time.Now(), 0
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if w.From.IsZero() {
			w.From = ev.At
		}
		into := ev.At.Sub(w.From)
		if into < 0 {
			began = time.Now() // finding the place in the file is not part of the window
			continue
		}
		if w.For > 0 && into >= w.For {
			return n, nil
		}
		if err := sleepUntil(ctx, began.Add(time.Duration(float64(into)/w.Speed))); err != nil {
			return n, err
		}
		deliver(ev)
		n++
	}
}

func sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
