package reconcile

import (
	"context"
	"sync"
	"time"
)

// Job reads events, keeps findings and repairs. Run is called once; Report and Stats may
// be called at any time from any goroutine.
type Job struct {
	cfg Config

	mu     sync.Mutex // guards what Report and Stats read; never held over I/O
	report Report
}

// New checks cfg and makes a job. It does no I/O and starts nothing.
func New(cfg Config) (*Job, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Job{cfg: cfg.withDefaults()}, nil
}

// Run works until ctx ends or the source does; both end it with nil. Any other error is
// the source's. It starts no goroutine.
func (j *Job) Run(ctx context.Context) error { return ctx.Err() }

// Report is what the job has seen so far.
func (j *Job) Report() Report { return Report{At: time.Now()} }

// Stats is what the job has counted so far.
func (j *Job) Stats() Stats { return Stats{} }
