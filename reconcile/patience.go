package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrStoreTimeout says that a store of findings, approvals or dead letters has not answered
// within [Config.StoreTimeout]. The call is tried again.
var ErrStoreTimeout = errors.New("reconcile: store did not answer in time")

// Trouble is something that keeps failing or does not answer, since when.
type Trouble struct {
	Step  string    `json:"step"` // store_finding, approvals, …; "hook " and a business type
	Since time.Time `json:"since"`
	Hangs bool      `json:"hangs"` // no answer in time; false: an error
}

// outlived is after how long without another failure a trouble is none any more: what is not
// called again can neither fail nor work. Whatever goes on failing does so sooner: a call lasts
// a minute at most, and is tried again within seconds.
const outlived = 5 * time.Minute

// ailing is a trouble, and when it was there last.
type ailing struct {
	Trouble
	last time.Time
}

// patience bounds the calls of stores, and knows which of them and which hooks fail. Job's
// goroutine calls it, anybody may ask it.
type patience struct {
	timeout time.Duration

	mu       sync.Mutex // never held over a call
	timeouts uint64
	troubles map[string]ailing // by step
}

func newPatience(timeout time.Duration) *patience {
	return &patience{timeout: timeout, troubles: map[string]ailing{}}
}

// ask does one call within the timeout. A ctx that ended from above is no trouble.
func (p *patience) ask(ctx context.Context, step string, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	err := do(bounded)
	if err != nil && ctx.Err() != nil {
		return err
	}
	hangs := err != nil && bounded.Err() != nil
	if hangs {
		err = fmt.Errorf("%w (%s): %w", ErrStoreTimeout, p.timeout, err)
		p.mu.Lock()
		p.timeouts++
		p.mu.Unlock()
	}
	p.note(step, err, hangs)
	return err
}

// note takes down how a step went.
func (p *patience) note(step string, err error, hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.troubles, step)
		return
	}
	now := time.Now()
	t := ailing{Trouble{Step: step, Since: now, Hangs: hangs}, now}
	if was, known := p.troubles[step]; known && now.Sub(was.last) < outlived {
		t.Since = was.Since
	}
	p.troubles[step] = t
}

// settle lets those hooks go that nothing waits for any more. now tells of a business type
// whether a case of it is due, and whether a call of its hook hangs at this moment.
func (p *patience) settle(now func(kind string) (due, hangs bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for step, t := range p.troubles {
		kind, hook := strings.CutPrefix(step, hookPrefix)
		if !hook {
			continue
		}
		switch due, hangs := now(kind); {
		case hangs:
			t.last = time.Now()
			p.troubles[step] = t
		case !due:
			delete(p.troubles, step)
		}
	}
}

func (p *patience) count() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timeouts
}

func (p *patience) list() []Trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Trouble
	for _, t := range p.troubles {
		if time.Since(t.last) < outlived {
			all = append(all, t.Trouble)
		}
	}
	slices.SortFunc(all, func(a, b Trouble) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Step, b.Step)) })
	return all
}

// Troubles are what fails or hangs now, the oldest first: stores that take no finding, hooks that
// do not answer. A step leaves when it has worked once, when it has not failed again for five
// minutes, and a hook when no case of its business type is left to be worked on; one whose call has not
// returned hangs for as long as that.
func (j *Job) Troubles() []Trouble { return j.patience.list() }

// stepApprovals names what [patientApprovals] asks.
const stepApprovals = "approvals"

// patientApprovals are approvals whose every call is bounded.
type patientApprovals struct {
	Approvals
	patience *patience
}

func (a patientApprovals) Ask(ctx context.Context, r Request) (out Approval, err error) {
	err = a.patience.ask(ctx, stepApprovals, func(ctx context.Context) error { out, err = a.Approvals.Ask(ctx, r); return err })
	return out, err
}

func (a patientApprovals) Decided(ctx context.Context, now time.Time, most int) (out []Approval, err error) {
	err = a.patience.ask(ctx, stepApprovals, func(ctx context.Context) error { out, err = a.Approvals.Decided(ctx, now, most); return err })
	return out, err
}

func (a patientApprovals) Last(ctx context.Context, repairKey string) (out Approval, known bool, err error) {
	err = a.patience.ask(ctx, stepApprovals, func(ctx context.Context) error { out, known, err = a.Approvals.Last(ctx, repairKey); return err })
	return out, known, err
}

func (a patientApprovals) Settle(ctx context.Context, repairKey string, result Result) error {
	return a.patience.ask(ctx, stepApprovals, func(ctx context.Context) error { return a.Approvals.Settle(ctx, repairKey, result) })
}

// pending counts where the approvals can.
func (a patientApprovals) pending(ctx context.Context, now time.Time) (n int, counts bool) {
	pender, counts := a.Approvals.(Pender)
	if !counts {
		return 0, false
	}
	err := a.patience.ask(ctx, stepApprovals, func(ctx context.Context) (err error) { n, err = pender.Pending(ctx, now); return err })
	return n, err == nil
}
