package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHookTimeout says that a hook has not answered within [Config.HookTimeout]. It is a
// failed try of its case.
var ErrHookTimeout = errors.New("reconcile: hook did not answer in time")

// hookGrace is how long a hook has to return once its ctx has ended.
const hookGrace = 5 * time.Second

// calls bounds the calls of hooks. One that hung would keep the job from reading, for ever,
// and so would the next case of its business type: that type then waits for as long as it
// has taken, in which everything else goes on.
type calls struct {
	out      map[string]chan struct{} // by business type: a call that was given up; closed when it has returned
	paused   map[string]time.Time     // by business type
	timeouts uint64
}

func newCalls() calls { return calls{out: map[string]chan struct{}{}, paused: map[string]time.Time{}} }

// pausing tells whether hooks of kind are left alone for now.
func (c *calls) pausing(kind string) bool { return c.paused[kind].After(time.Now()) }

// call calls a hook of a business type, and makes an error of a panic and of no answer. A
// hook that does not heed its ctx goes on by itself: nothing of its type is called before it
// has returned, so there is never more than one of them.
func call[T any](ctx context.Context, r *repairer, kind string, hook func(context.Context) (T, error)) (T, error) {
	var none T
	if r.calls.hanging(kind) {
		return none, r.timedOut(ctx, kind, "an earlier call has not returned yet")
	}
	delete(r.calls.out, kind)
	type answer struct {
		value T
		err   error
	}
	bounded, cancel := context.WithTimeout(ctx, r.cfg.HookTimeout)
	defer cancel()
	answers, done := make(chan answer, 1), make(chan struct{})
	go func() {
		defer close(done)
		var a answer
		a.err = safely(func() (err error) { a.value, err = hook(bounded); return err })
		answers <- a
	}()
	var late <-chan time.Time
	for ended := bounded.Done(); ; {
		select {
		case a := <-answers:
			if a.err != nil && bounded.Err() != nil && ctx.Err() == nil {
				return a.value, r.timedOut(ctx, kind, a.err.Error())
			}
			if ctx.Err() == nil {
				r.patience.note(hookStep(kind), nil, false) // it answers; what it answers is its case's
			}
			return a.value, a.err
		case <-ended:
			ended, late = nil, time.After(hookGrace)
		case <-late:
			r.calls.out[kind] = done
			if ctx.Err() != nil {
				return none, ctx.Err()
			}
			return none, r.timedOut(ctx, kind, "it does not heed its context")
		}
	}
}

// returned is a call that is over.
var returned = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// hookPrefix begins the names of hooks among the troubles; a business type follows.
const hookPrefix = "hook "

// hookStep names a business type's hook among the troubles.
func hookStep(kind string) string { return hookPrefix + kind }

// hanging tells whether a call that was given up has not returned yet.
func (c *calls) hanging(kind string) bool {
	select {
	case <-or(c.out[kind], returned):
		return false
	default:
		return true
	}
}

func (r *repairer) timedOut(ctx context.Context, kind, why string) error {
	r.calls.timeouts++
	r.patience.note(hookStep(kind), ErrHookTimeout, true)
	r.calls.paused[kind] = time.Now().Add(r.cfg.HookTimeout)
	r.cfg.Logger.ErrorContext(ctx, "hook did not answer in time", "business_type", kind, "timeout", r.cfg.HookTimeout, "why", why)
	return fmt.Errorf("%w (%s): %s", ErrHookTimeout, r.cfg.HookTimeout, why)
}
