package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/memory"
	"github.com/tierlock/tierlock/reconcile"
)

// reconcileReport is what one run of the job cost, and what of its findings was wrong.
type reconcileReport struct {
	Events  uint64  `json:"events"` // read, markers of each partition included
	Seconds float64 `json:"seconds"`
	PeakRSS int64   `json:"peak_rss_bytes"` // of this process, the generator included
	Groups  int     `json:"groups"`         // of holds that overlapped or may have
	Missed  int     `json:"certain_missed"` // pairs that overlapped by more than the clocks' bounds and are not told as certain
	False   int     `json:"certain_false"`  // pairs told as certain that did not overlap
}

// reconcileStream has the reconcile job read events that are made as it reads: their making
// is part of the time and of the memory, their parsing too. Findings stay in memory.
func reconcileStream(ctx context.Context, args []string, stdout io.Writer) (err error) {
	s := newSession("reconcile", stdout)
	events := s.flags.Int("events", 10_000_000, "events to read, two a hold")
	seed := s.flags.Uint64("seed", 1, "of the made history")
	check := func() error {
		if *events < 1000 {
			return tierlock.Invalid("events", fmt.Sprint(*events), "want at least 1000")
		}
		return nil
	}
	if err := s.startAlone(args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()

	defer memory.Limit(memory.Reconcile)() // as tierlock reconcile does
	source := startSource(*seed, *events/2)
	defer source.stop()
	found := &verdicts{}
	job, err := reconcile.New(reconcile.Config{Source: source, Findings: []reconcile.Findings{found}})
	if err != nil {
		return err
	}
	began := time.Now()
	if err := job.Run(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := reconcileReport{Seconds: time.Since(began).Seconds(), Events: job.Stats().Records}
	if r.PeakRSS, err = peakRSS(); err != nil {
		return err
	}
	if s.memFile != "" { // what the oracle needs is no part of it
		errs := s.writeAllocations()
		if s.memFile = ""; errs != nil {
			return errs
		}
	}
	r.Groups = found.groups
	r.Missed, r.False = found.judge(truthOf(*seed, *events/2))
	if s.json {
		return s.print(r)
	}
	_, err = fmt.Fprintf(s.stdout, "%d events in %.1f s, %.0f MiB at most: %d groups, %d certain pairs missed, %d told that were none\n",
		r.Events, r.Seconds, float64(r.PeakRSS)/(1<<20), r.Groups, r.Missed, r.False)
	return err
}

// peakRSS is the most memory that this process has had.
func peakRSS() (int64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return usage.Maxrss << 10, nil // Linux counts in KiB
}
