package reconcile

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/tierlock/tierlock/audit"
)

// Job reads events, keeps findings and repairs. Run is called once; Report and Stats may
// be called at any time from any goroutine.
type Job struct {
	cfg      Config
	windows  map[int]*window
	width    int // of the stream, in partitions; zero: not known
	fleet    fleet
	repairs  repairer
	patience *patience
	parser   audit.Parser

	decidedAt   time.Time // when approvals were asked last
	decidedDone int       // and how much was done by then, at the end of the stream

	mu    sync.Mutex // guards books; never held over I/O
	books books
}

// New checks cfg and makes a job. It does no I/O and starts nothing.
func New(cfg Config) (*Job, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	j := &Job{cfg: cfg.withDefaults(), windows: map[int]*window{}, fleet: fleet{by: map[string]*member{}}, books: newBooks(), decidedDone: -1}
	j.patience = newPatience(j.cfg.StoreTimeout)
	if j.cfg.Approvals != nil {
		j.cfg.Approvals = patientApprovals{j.cfg.Approvals, j.patience}
	}
	j.repairs = newRepairer(&j.cfg)
	j.repairs.patience = j.patience
	return j, nil
}

// casesPerStep bounds how long repairs keep the job from reading.
const casesPerStep = 32

// Run works until ctx ends or the source does; both end it with nil. Any other error is
// the source's. It starts no goroutine. When the source ends, everything that was read is
// judged, open or not, and cases that may be worked on are.
func (j *Job) Run(ctx context.Context) error {
	for {
		batch, err := j.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // to be told to stop is no fault
		case errors.Is(err, io.EOF):
			if again, err := j.finish(ctx); err != nil || !again {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if err = j.take(ctx, batch); err == nil {
			err = j.step(ctx, false)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// next waits for a batch, but not for longer than a tick: time alone closes windows too.
func (j *Job) next(ctx context.Context) (Batch, error) {
	tick, cancel := context.WithTimeout(ctx, j.cfg.Tick)
	defer cancel()
	batch, err := j.cfg.Source.Next(tick)
	if err != nil && tick.Err() != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return batch, nil
	}
	return batch, err
}

// take brings a batch into the windows.
func (j *Job) take(ctx context.Context, b Batch) error {
	for _, p := range b.Revoked {
		delete(j.windows, p)
		j.repairs.drop(p)
		j.fleet.drop(p)
	}
	for _, m := range b.Assigned {
		w := newWindow(&j.cfg.Rule, m)
		if err := j.missing(ctx, w); err != nil {
			return err
		}
		j.windows[m.Partition] = w
	}
	if b.Width > 0 {
		j.width = b.Width
	}
	for _, l := range b.Lost {
		if w := j.windows[l.Partition]; w != nil {
			j.lost(ctx, w, l)
		}
	}
	now := time.Now()
	live := len(b.Records) > 0 && j.live(b.Records[0].Partition)
	for i := range b.Records {
		if live {
			b.Records[i].Time = time.Time{}
		}
		if err := j.record(ctx, &b.Records[i], now); err != nil {
			return err
		}
	}
	for _, p := range b.CaughtUp {
		if w := j.windows[p]; w != nil {
			w.caught, w.asOf = true, or(b.AsOf, time.Now())
		}
	}
	return nil
}

// live tells whether nothing was unread of a partition before the batch that has come: its
// records came just now then. Their own time may be their producer's, whose clock may be far
// behind; by it, a living process would be silent, and its tiers would not count.
func (j *Job) live(partition int) bool {
	w := j.windows[partition]
	return w != nil && w.caught
}

// lost takes in that records will never come. Where the stream begins anew below, what is
// known of the partition's open groups is read again, with the records that are new there.
func (j *Job) lost(ctx context.Context, w *window, l Loss) {
	w.feeds.lost(l, w.horizon, time.Now())
	j.fleet.drop(l.Partition) // who had ended may have begun again, in what is lost
	if !l.Shrunk {
		w.next = max(w.next, l.To)
		return
	}
	j.cfg.Logger.ErrorContext(ctx, "the stream is shorter than it was, partition is read again", "partition", l.Partition, "ends_at", l.From, "was_at", l.To)
	w.shrink(l.From)
	j.count(func(b *books) { b.reread(w.partition) })
}

// record brings one record into its window.
func (j *Job) record(ctx context.Context, r *Record, now time.Time) error {
	w := j.windows[r.Partition]
	if w == nil || r.Offset < w.next {
		return nil // not ours any more, or read already
	}
	w.caught = false
	ev, err := j.parser.Parse(r.Value)
	if err != nil {
		if err := j.deadLetter(ctx, r, err); err != nil {
			return err
		}
		w.next = r.Offset + 1
		return nil
	}
	j.fleet.hear(&ev, r, now)
	fresh := w.feeds.hear(&ev, r, now) || r.Replayed // whose seq may have been passed long ago
	if fresh && !ev.Type.Marker() {
		w.feeds.place(&ev, j.width)
	}
	j.count(func(b *books) { b.record(&ev, r.Partition, fresh) })
	if fresh && !ev.Type.Marker() && j.cfg.Rule.matters(ev.Tier, ev.Outcome, ev.EndedAt) && w.absorb(&ev, r.Offset) {
		w.noteLate(ev.Key, now)
		j.count(func(b *books) { b.stats.Late++ })
	}
	w.next = r.Offset + 1
	return nil
}

// step moves everything on that time or records have made due.
func (j *Job) step(ctx context.Context, complete bool) error {
	now := time.Now()
	for _, w := range j.windows {
		if !complete && j.repairs.hungry(w.partition) {
			w.again(now)
		}
		if !complete {
			w.revisit(now)
		}
		again, err := j.reread(ctx, w, now)
		if err == nil && !again {
			err = j.judge(ctx, w, complete)
		}
		if err != nil {
			return err
		}
	}
	j.decisions(ctx, now, complete)
	changed := j.repairs.work(ctx, casesPerStep, j.ready)
	j.patience.settle(func(kind string) (due, hangs bool) { return j.repairs.awaits(kind), j.repairs.calls.hanging(kind) })
	for _, f := range changed {
		if err := j.put(ctx, f); err != nil {
			return err
		}
	}
	j.repairs.settleTold(ctx)
	j.count(func(b *books) { b.moment(j) })
	return j.commit(ctx, now, complete)
}

func (j *Job) count(do func(*books)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	do(&j.books)
}

// Report is what the job has seen so far.
func (j *Job) Report() Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.books.report(&j.cfg, time.Now())
	r.StoreTimeouts = j.patience.count()
	return r
}

// Stats is what the job has counted so far.
func (j *Job) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.books.sum()
	s := j.books.stats
	s.StoreTimeouts = j.patience.count()
	return s
}
