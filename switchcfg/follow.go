package switchcfg

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// hintGap keeps a source that hints all the time within 5 fetches a second, the budget of
// the Nacos client.
const hintGap = 200 * time.Millisecond

// Follow keeps apply called with every newer valid document of src until ctx ends, and
// returns ctx's error. At its start it applies the last good document, without the orders
// that have passed; then fetching is the truth, by poll or because a [Pusher] hinted.
//
// apply gets documents one at a time, from one goroutine, without orders that have passed;
// its error refuses the document. What is empty, unreadable, unsigned where keys are given,
// invalid, older, expired, or of the version in force with other content changes nothing: it
// is reported every time and logged when it begins, changes and ends. So does a version
// whose canary leaves the instance out, and that is no fault.
//
// A fetch that does not return by its deadline counts as unanswered; no second one starts
// beside it. Follow returns when src has returned from every call.
func Follow(ctx context.Context, src Source, cfg FollowConfig, apply func(Document) error) error {
	cfg = cfg.withDefaults()
	f := &follower{src: src, judge: judge{apply: apply, instance: cfg.Instance, canaries: cfg.Canaries, keys: cfg.Keys}, cfg: cfg, hint: make(chan struct{}, 1)}
	f.start()
	var watching sync.WaitGroup
	defer watching.Wait()
	if p, ok := src.(Pusher); ok {
		watching.Go(func() { f.watch(ctx, p) })
	}
	return f.run(ctx)
}

// follower owns the loop; only its goroutine touches it, but for hint.
type follower struct {
	src   Source
	cfg   FollowConfig
	judge judge
	hint  chan struct{} // a change may have happened; holds one, more would say no more
	last  *Fault        // of the last report
}

// start puts the last good document in force.
func (f *follower) start() {
	defer f.report()
	if f.cfg.LastGood == "" {
		return
	}
	d, ok, err := loadLastGood(f.cfg.LastGood)
	if err != nil {
		f.cfg.Logger.Warn("last good switch document ignored", "error", err)
	}
	if !ok {
		return
	}
	passed, err := f.judge.restore(d, time.Now())
	if err != nil {
		f.cfg.Logger.Warn("last good switch document refused", "version", d.Version, "error", err)
		return
	}
	f.cfg.Logger.Info("last good switch document in force", "version", d.Version, "passed_chains", passed)
}

// answer is what one fetch came to.
type answer struct {
	text []byte
	err  error
}

// run fetches, waits for poll or hint, and fetches again.
func (f *follower) run(ctx context.Context) error {
	var out chan answer // of the fetch that is under way; nil if none is
	defer func() {
		if out != nil {
			<-out // the source has been told to return; nobody is left behind
		}
	}()
	for ctx.Err() == nil {
		if out == nil {
			out = f.fetch(ctx)
		}
		late := time.NewTimer(f.cfg.Fetch)
		select {
		case a := <-out:
			out = nil
			f.settle(a, time.Now())
		case <-late.C:
			f.settle(answer{err: context.DeadlineExceeded}, time.Now())
		case <-ctx.Done():
		}
		late.Stop()
		f.wait(ctx)
	}
	return ctx.Err()
}

// fetch asks the source once, under a deadline. The channel takes the answer also when
// nobody waits for it any more.
func (f *follower) fetch(ctx context.Context) chan answer {
	out := make(chan answer, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, f.cfg.Fetch)
		defer cancel()
		text, err := f.src.Fetch(ctx)
		out <- answer{text, err}
	}()
	return out
}

// settle acts on one answer: what is new goes into force and is kept.
func (f *follower) settle(a answer, now time.Time) {
	was, withheld := f.judge.version, f.judge.withheld
	fault := f.judge.rule(a, now)
	if f.judge.withheld > 0 && f.judge.withheld != withheld {
		f.cfg.Logger.Info("switch document waits: its canary leaves this instance out", "version", f.judge.withheld, "in_force", was, "instance", f.cfg.Instance)
	}
	if f.judge.version != was {
		f.cfg.Logger.Info("switch document in force", "version", f.judge.version, "was", was)
		f.keep(now)
	}
	f.judge.fault = fault
	f.report()
}

// keep saves the document in force. A full disk must not stop a switch.
func (f *follower) keep(now time.Time) {
	if f.cfg.LastGood == "" {
		return
	}
	if err := saveLastGood(f.cfg.LastGood, f.judge.document, now); err != nil {
		f.cfg.Logger.Error("switch document not kept: a restart while its source is away forgets it", "file", f.cfg.LastGood, "error", err)
	}
}

// report tells how it stands, and logs the edges.
func (f *follower) report() {
	fault := f.judge.fault
	edge := !fault.like(f.last)
	switch {
	case edge && fault != nil:
		f.cfg.Logger.Warn("switch document not followed", "why", string(fault.Why), "refused_version", fault.Version, "in_force", f.judge.version, "error", fault.Err)
	case edge:
		f.cfg.Logger.Info("switch document followed again", "in_force", f.judge.version)
	}
	f.last = fault
	f.cfg.Report(Report{Version: f.judge.version, Hash: f.judge.hash, Confirmed: f.judge.confirmed, Fault: fault, Withheld: f.judge.withheld, Edge: edge})
}

// wait returns when the next fetch is due: a poll's time from now, or a hint, but not
// within hintGap.
func (f *follower) wait(ctx context.Context) {
	if !pause(ctx, hintGap) {
		return
	}
	poll := time.NewTimer(jitter(f.cfg.Poll) - hintGap)
	defer poll.Stop()
	select {
	case <-ctx.Done():
	case <-poll.C:
	case <-f.hint:
	}
}

// watch keeps the source's own watch running; polling goes on without it.
func (f *follower) watch(ctx context.Context, p Pusher) {
	wake := func() {
		select {
		case f.hint <- struct{}{}:
		default:
		}
	}
	for failed := false; ; failed = true {
		err := p.Watch(ctx, wake)
		if ctx.Err() != nil {
			return
		}
		if !failed {
			f.cfg.Logger.Warn("switch source hints no more, polling goes on", "error", err)
		}
		if !pause(ctx, jitter(f.cfg.Poll)) {
			return
		}
	}
}

// jitter is d, a quarter more or less: instances that start together do not ask together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// pause says whether d has passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
