package breaker

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// fuse is gobreaker, the breaker of record, with its known traps closed. It is guarded by
// the sensor's mutex, under which gobreaker is called and itself calls nothing of ours
// but ReadyToTrip and IsExcluded, which read a field.
//
//   - No OnStateChange, which would run under gobreaker's mutex: state is compared after
//     each call instead.
//   - Failures in a row are counted here, since gobreaker's own windows forget them, and
//     Interval is 0, so no result is dropped because its operation outlived a window.
//   - A success tells a closed gobreaker nothing while no failure stands before it. It is
//     then not asked at all, and neither is it at the start of an operation while closed:
//     that keeps it off the fast path. What was started in another era (before an edge or
//     a reset) is not reported, as gobreaker itself does by generation.
//   - A trial through a half-open breaker has a watchdog (pass.go), reports once, and a
//     result that is no evidence is excluded; as that frees its place, trials start at
//     most every trickleEvery.
//   - Open turns half-open only when somebody asks: mayTry does. Reading does not.
//   - There is no reset: reset puts a new gobreaker in its place.
//   - There is no force: who may pass whatever it says does not ask it ([Ask].Forced).
type fuse struct {
	name  string
	limit int
	open  time.Duration

	cb    *gobreaker.TwoStepCircuitBreaker[struct{}]
	state gobreaker.State // cb's, after the last call
	row   int             // failures in a row
	era   uint64          // edges and resets so far
	trial time.Time       // when the next trial may start
}

// errNoEvidence is a result that counts neither way.
var errNoEvidence = errors.New("breaker: no evidence")

func (f *fuse) init(cfg Config) {
	f.name, f.limit, f.open = cfg.Name, cfg.Failures, cfg.Open
	f.cb = f.fresh()
}

func (f *fuse) fresh() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        f.name,
		MaxRequests: 1,
		Timeout:     f.open,
		ReadyToTrip: func(gobreaker.Counts) bool { return f.row >= f.limit },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNoEvidence) },
	})
}

// closed tells whether operations pass without a trial.
func (f *fuse) closed() bool { return f.state == gobreaker.StateClosed }

// mayTry tells whether an operation may start now, if only as a trial.
func (f *fuse) mayTry(now time.Time) bool {
	if f.closed() {
		return true
	}
	f.look()
	return f.state == gobreaker.StateClosed || f.state == gobreaker.StateHalfOpen && !now.Before(f.trial)
}

// try starts a trial; done reports it.
func (f *fuse) try(now time.Time) (done func(error), ok bool) {
	if !f.mayTry(now) {
		return nil, false
	}
	done, err := f.cb.Allow()
	f.look()
	if err != nil {
		return nil, false
	}
	f.trial = now.Add(trickleEvery)
	return done, true
}

// settle ends the trial that t is, if it is one that nobody has settled.
func (f *fuse) settle(t *ticket, err error) {
	if t.done == nil {
		return
	}
	t.watch.Stop()
	t.done(err)
	t.done, t.watch = nil, nil
	f.look()
}

// answered notes an answer.
func (f *fuse) answered() {
	if f.row > 0 {
		f.row = 0
		f.report(nil)
	}
}

// failed notes one failure more.
func (f *fuse) failed(err error) {
	f.row++
	f.report(err)
}

// report tells gobreaker of a result while it is closed; an open one learns by trials.
func (f *fuse) report(err error) {
	if f.state != gobreaker.StateClosed {
		return
	}
	if done, refused := f.cb.Allow(); refused == nil {
		done(err)
	}
	f.look()
}

// look takes over gobreaker's state. It may turn open into half-open.
func (f *fuse) look() {
	if now := f.cb.State(); now != f.state {
		f.state = now
		f.era++
	}
}

// clean tells whether there is nothing to reset.
func (f *fuse) clean() bool { return f.row == 0 && f.state == gobreaker.StateClosed }

// reset starts afresh: closed, no failures. What is still out reports into the void.
func (f *fuse) reset() {
	f.cb, f.state, f.row = f.fresh(), gobreaker.StateClosed, 0
	f.trial = time.Time{}
	f.era++
}
