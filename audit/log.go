package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit/spool"
)

// Log is the durable record of one process. It implements [Recorder]. Whoever opened it
// closes it; the sink is closed by whoever made that, afterwards.
type Log struct {
	cfg   Config
	log   *slog.Logger
	spool *spool.Spool
	first uint64 // seq of the epoch's first event
	notes *notes
	fwd   *forwarder // nil without a sink

	describe atomic.Pointer[func() Status]
	news     news
	bodies   sync.Pool // *[]byte

	written chan struct{}      // the writer is gone
	flushes chan chan struct{} // ask the writer to write all notes, and to say when
	lossy   chan struct{}      // events were lost: write a gap
	closed  atomic.Bool
	stop    context.CancelFunc // of writer and pulse
	done    sync.WaitGroup     // writer and pulse

	unsaid struct{ full, overflow atomic.Uint64 } // lost and in no gap event yet
	count  struct{ recorded, noted, shed, gaps, forced atomic.Uint64 }
}

var _ Recorder = (*Log)(nil)

// Open recovers Dir, begins a new epoch, seals the one before and starts to forward to
// Sink. It does not wait for the sink. A folder that another process has open is an error
// that matches [spool.ErrLocked].
func Open(cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, log: cfg.Logger, notes: newNotes(cfg.Notes),
		written: make(chan struct{}), flushes: make(chan chan struct{}), lossy: make(chan struct{}, 1),
		news: news{come: make(chan struct{}, 1)},
	}
	cur, err := l.openSpool()
	if err != nil {
		return nil, err
	}
	if err := l.sayHello(); err != nil {
		return nil, errors.Join(fmt.Errorf("audit: write first event: %w", err), l.spool.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.done.Go(l.write)
	l.done.Go(func() { l.pulse(ctx) })
	if cfg.Sink != nil {
		l.fwd = newForwarder(l, cur)
		l.fwd.start()
	}
	return l, nil
}

// openSpool reads the cursor twice: first for the floor, that no seq is used again which
// may have been sent, and once more when the folder is ours.
func (l *Log) openSpool() (cursor, error) {
	cfg := &l.cfg
	cur, err := loadCursor(cfg.FS, cfg.Dir)
	if err != nil {
		l.log.Error("cursor unreadable, everything in the folder is sent again", slog.Any("error", err))
	}
	l.spool, err = spool.Open(spool.Config{
		Dir: cfg.Dir, FS: cfg.FS, Segment: cfg.Segment, Quota: cfg.Quota, Linger: cfg.Linger, Label: cfg.Producer,
		// A folder that was wiped must not repeat ids that were sent before: its epochs
		// begin with the time, and rise by one per Open, which is slower than time.
		Epoch: uint64(max(time.Now().Unix(), 1)),
		Floor: max(cur.Next, 1) - 1, Synced: l.synced, Dropped: l.dropped,
	})
	if err != nil {
		return cursor{}, fmt.Errorf("audit: %w", err)
	}
	l.first = l.spool.Stats().Durable + 1
	if again, err := loadCursor(cfg.FS, cfg.Dir); err == nil {
		cur = again
	}
	return cur, nil
}

// Record implements [Recorder]. What happens on a disk that takes nothing is ev.OnFull's
// choice: with [Shed] it is nil, counted, and a gap event follows as soon as one can be
// written.
//
// When ctx ends first, the event may still become durable. Its caller gives no grant out,
// so the log closes it by an end event of its own (how forced, ended when granted,
// rolled_back): a reader sees no hold of any length.
func (l *Log) Record(ctx context.Context, ev *Event) error {
	if err := checkRecorded(ev); err != nil {
		return err
	}
	if l.closed.Load() {
		return ErrClosed
	}
	buf := l.buffer()
	defer l.bodies.Put(buf)
	*buf = l.body(ev, (*buf)[:0])
	err := l.append(ctx, *buf, ev)
	switch {
	case err == nil:
		l.count.recorded.Add(1)
		return nil
	case ev.OnFull == Shed && (errors.Is(err, ErrFull) || errors.Is(err, ErrFailed)):
		l.count.shed.Add(1)
		l.unsaid.full.Add(1)
		l.tellLoss()
		return nil
	case ev.Type == TypeAcquire && errors.Is(err, spool.ErrInDoubt):
		l.count.forced.Add(1)
		end := *ev
		end.Type, end.How, end.Outcome, end.EndedAt, end.Reason = TypeEnd, Forced, RolledBack, ev.GrantedAt, tierlock.ReasonUnrecorded
		l.Note(&end)
	}
	return err
}

// append waits for the disk, and with [Block] for room on it.
func (l *Log) append(ctx context.Context, body []byte, ev *Event) error {
	for {
		room := l.spool.Room()
		_, err := l.spool.Append(ctx, body, roomOf(ev.Type))
		if ev.OnFull != Block || !errors.Is(err, ErrFull) || errors.Is(err, spool.ErrInDoubt) {
			return err
		}
		retry := time.NewTimer(blockRetry)
		select {
		case <-room:
		case <-retry.C: // a full disk may have room again without our doing
		case <-ctx.Done():
		}
		retry.Stop()
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

const blockRetry = 100 * time.Millisecond

// Note implements [Recorder].
func (l *Log) Note(ev *Event) {
	if l.notes.put(ev) {
		return
	}
	l.unsaid.overflow.Add(1)
	l.tellLoss()
}

// Describe sets what heartbeats tell of the gateway; status is called from the log's own
// goroutine, once per heartbeat.
func (l *Log) Describe(status func() Status) { l.describe.Store(&status) }

// Flush returns once every event handed over so far is durable.
func (l *Log) Flush(ctx context.Context) error {
	asked := make(chan struct{})
	select {
	case l.flushes <- asked:
		select {
		case <-asked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case <-l.written: // it wrote everything before it left
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.spool.Flush(ctx)
}

// Drain returns once every event handed over so far is safe in the sink.
func (l *Log) Drain(ctx context.Context) error {
	if l.fwd == nil {
		return tierlock.Invalid("audit.sink", "", "there is none to drain to")
	}
	if err := l.Flush(ctx); err != nil {
		return err
	}
	return l.fwd.await(ctx, l.spool.Stats().Durable)
}

// closeWait bounds the forwarding at Close when ctx has no deadline.
const closeWait = 5 * time.Second

// Close writes what was handed over, seals the epoch, forwards until ctx ends (5 s when
// it has no end) and keeps what was not sent for the next Open. A second Close does
// nothing.
func (l *Log) Close(ctx context.Context) error {
	if l.closed.Swap(true) {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeWait)
		defer cancel()
	}
	l.notes.close()
	l.stop()
	l.notes.poke()
	l.done.Wait()
	err := l.sealOwn()
	if l.fwd != nil {
		if late := l.fwd.await(ctx, l.spool.Stats().Durable); late != nil {
			l.log.Warn("closed with events that are not sent yet", slog.Uint64("events", l.Stats().Backlog()))
		}
		err = errors.Join(err, l.fwd.stop())
	}
	return errors.Join(err, l.spool.Close())
}

// Stats is a moment of the log.
func (l *Log) Stats() Stats {
	s := l.spool.Stats()
	st := Stats{
		Producer: l.cfg.Producer, Epoch: s.Epoch, Durable: s.Durable, Bytes: s.Bytes, Quota: l.cfg.Quota,
		Recorded: l.count.recorded.Load(), Noted: l.count.noted.Load(), Overflow: l.notes.lost.Load(),
		Shed: l.count.shed.Load(), Gaps: l.count.gaps.Load(), Forced: l.count.forced.Load(),
		Syncs: s.Syncs, SyncTime: s.SyncTime, TornBytes: s.Torn, Damaged: s.Damaged, Full: s.Full, Failed: s.Failed != nil,
	}
	if l.fwd != nil {
		l.fwd.addStats(&st)
	}
	return st
}

func checkRecorded(ev *Event) error {
	if ev.Type != TypeAcquire && ev.Type != TypeEnd && ev.Type != TypeOptimistic {
		return tierlock.Invalid("type", string(ev.Type), "want one of acquire, end, optimistic")
	}
	if ev.Key.IsZero() {
		return tierlock.Invalid("key", "", "is required")
	}
	return nil
}

// roomOf lets ends and markers use the reserve, so that what was begun is never left open
// for want of room.
func roomOf(t Type) spool.Room {
	if t == TypeAcquire || t == TypeOptimistic {
		return spool.Ordinary
	}
	return spool.Closing
}

func (l *Log) buffer() *[]byte {
	if b, ok := l.bodies.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 512)
	return &b
}

// body encodes ev, with the log's clock error where it brings none, and its key hidden
// where that is asked for.
func (l *Log) body(ev *Event, b []byte) []byte {
	hidden := len(l.cfg.Digest.Chains) > 0
	unsure := ev.ClockError == 0 && l.cfg.ClockError != 0
	if ev.Type.Marker() || !hidden && !unsure {
		return ev.appendBody(b)
	}
	own := *ev
	if unsure {
		own.ClockError = l.cfg.ClockError
	}
	if hidden {
		own.Key = l.cfg.Digest.Key(own.Chain, own.Key)
	}
	return own.appendBody(b)
}

func (l *Log) synced(s spool.Sync) {
	if l.cfg.Hooks.Synced != nil {
		l.cfg.Hooks.Synced(SyncInfo(s))
	}
	if s.Err != nil {
		l.log.Error("events could not be written", slog.Int("events", s.Records), slog.Any("error", s.Err))
	}
}

// dropped is told of notes that the disk did not take.
func (l *Log) dropped(n int) {
	l.unsaid.full.Add(uint64(n))
	l.tellLoss()
}

func (l *Log) tellLoss() {
	select {
	case l.lossy <- struct{}{}:
	default:
	}
}
