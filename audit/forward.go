package audit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock/audit/spool"
)

// forwarder moves durable records to the sink: at least once, in order per partition,
// nothing left out. One goroutine reads a chunk, sends it until all of it is safe, and
// only then steps on; so a chunk that comes again after a crash is the same chunk.
type forwarder struct {
	l      *Log
	sink   Sink
	reader *spool.Reader
	cancel context.CancelFunc
	gone   chan struct{}

	// Only the goroutine uses these.
	cur    cursor // what is safe
	n      int    // partitions that keys are spread over; zero: not known yet
	all    int    // partitions that markers go to: n, or more where some were added since
	asked  time.Time
	saved  time.Time
	unsafe bool   // cur is ahead of the file
	kept   []byte // the chunk's records: the reader's bytes are its own; no message points here

	oldest atomic.Int64 // time of the first record under way, in microseconds; zero: none
	count  struct{ delivered, errors, dead atomic.Uint64 }

	mu    sync.Mutex
	sent  uint64        // last seq that is safe
	moved chan struct{} // closed when sent rises
}

// The bounds of a chunk keep what one partition gets in one call under the default limit
// of a Kafka broker for one batch, 1 MiB.
const (
	chunkRecords = 2000
	chunkBytes   = 768 << 10
	saveEvery    = 200 * time.Millisecond
	backoffFirst = 50 * time.Millisecond
	backoffMost  = 5 * time.Second
)

func newForwarder(l *Log, cur cursor) *forwarder {
	return &forwarder{
		l: l, sink: l.cfg.Sink, reader: l.spool.Reader(max(cur.Next, 1)), cur: cur,
		gone: make(chan struct{}), sent: max(cur.Next, 1) - 1, moved: make(chan struct{}),
	}
}

func (f *forwarder) start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.run(ctx)
}

// stop ends the goroutine, makes the cursor durable and removes what lies before it.
func (f *forwarder) stop() error {
	f.cancel()
	<-f.gone
	f.reader.Close()
	if err := f.save(); err != nil {
		return err
	}
	return f.l.spool.Trim(f.cur.Next)
}

func (f *forwarder) run(ctx context.Context) {
	defer close(f.gone)
	for ctx.Err() == nil {
		chunk, err := f.read(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded): // idle
			f.settle()
			continue
		case errors.Is(err, ErrClosed): // the seal is sent: nothing comes any more
			return
		case err != nil && ctx.Err() == nil:
			f.l.log.Error("spool cannot be read", slog.Any("error", err))
			f.pause(ctx, backoffMost)
			continue
		case err != nil || !f.ask(ctx):
			return
		}
		f.look(ctx)
		next, ok := f.forward(ctx, chunk)
		if !ok {
			return
		}
		f.advance(next)
	}
}

// forward makes a chunk safe and returns the cursor behind it; false: the log is closing.
func (f *forwarder) forward(ctx context.Context, chunk []spool.Record) (next cursor, ok bool) {
	for try := 0; ; try++ {
		next = f.cur.clone()
		msgs, err := f.render(ctx, chunk, &next)
		if err == nil {
			return next, f.deliver(ctx, msgs)
		}
		// A damaged range without its gap event would be silence. At Close it is left to
		// the next Open, which meets it again.
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return next, false
		}
		f.failed(try, "write gap event", err)
		f.pause(ctx, backoff(try))
	}
}

// read returns at least one record, and more only if they are there. While the cursor is
// ahead of its file it gives up after a while, so that the file can follow.
func (f *forwarder) read(ctx context.Context) (chunk []spool.Record, err error) {
	if f.unsafe {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, saveEvery)
		defer cancel()
	}
	f.kept = f.kept[:0]
	rec, err := f.reader.Next(ctx)
	for size := 0; err == nil; {
		at := len(f.kept)
		f.kept = append(f.kept, rec.Data...)
		rec.Data = f.kept[at:len(f.kept):len(f.kept)]
		chunk = append(chunk, rec)
		size += len(rec.Data) + headerBytes
		if len(chunk) == 1 {
			f.markOldest(rec)
		}
		if size > chunkBytes || len(chunk) >= chunkRecords {
			break
		}
		var ok bool
		if rec, ok, err = f.reader.TryNext(); !ok {
			break
		}
	}
	if len(chunk) > 0 {
		return chunk, nil // an error comes again with the next call
	}
	return nil, err
}

// headerBytes is about what a message has beside the stored record.
const headerBytes = 300

func (f *forwarder) markOldest(rec spool.Record) {
	if y, err := parseBody(rec.Data); err == nil {
		f.oldest.Store(y.at.UnixMicro())
	}
}

// ask learns the number of partitions, however long the sink is away.
func (f *forwarder) ask(ctx context.Context) bool {
	for try := 0; f.n == 0; try++ {
		n, err := f.sink.Partitions(ctx)
		if err == nil && n > 0 {
			if was := cmp.Or(f.cur.Keys, len(f.cur.Prev)); was != 0 && was != n {
				f.l.log.Warn("the number of partitions has changed, keys move", slog.Int("was", was), slog.Int("is", n))
			}
			f.n, f.all, f.asked = n, n, time.Now()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		f.failed(try, "ask for partitions", err)
		f.pause(ctx, backoff(try))
	}
	return true
}

// lookEvery is after how many heartbeats the number of partitions is asked for again.
const lookEvery = 10

// look has markers go to partitions that were added while the log is open. Keys stay where
// they are until the next Open: one that moved under its holder would have its events in two
// partitions, which nobody reads in order. What cannot be asked now is asked later.
func (f *forwarder) look(ctx context.Context) {
	if time.Since(f.asked) < lookEvery*f.l.cfg.Heartbeat {
		return
	}
	f.asked = time.Now()
	if n, err := f.sink.Partitions(ctx); err == nil && n > f.all {
		f.l.log.Warn("there are more partitions now, keys stay where they are until the next start", slog.Int("was", f.all), slog.Int("is", n))
		f.all = n
	}
}

// deliver sends until every message is safe; false: the log is closing.
func (f *forwarder) deliver(ctx context.Context, todo []Message) bool {
	for try, sends := 0, 1; len(todo) > 0; try, sends = try+1, sends+1 {
		start := time.Now()
		errs := f.sink.Send(ctx, todo)
		left, first := f.sort(ctx, todo, errs, sends)
		if f.l.cfg.Hooks.Sent != nil {
			f.l.cfg.Hooks.Sent(SendInfo{Messages: len(todo), Failed: len(left), Took: time.Since(start), Err: first})
		}
		if len(left) < len(todo) {
			try = 0
		}
		if todo = left; first == nil || len(todo) == 0 {
			continue
		}
		if ctx.Err() != nil {
			return false
		}
		f.count.errors.Add(1)
		f.failed(try, "deliver", first)
		f.pause(ctx, backoff(try))
	}
	return true
}

// advance steps behind what is safe.
func (f *forwarder) advance(next cursor) {
	f.cur, f.unsafe = next, true
	f.oldest.Store(0)
	f.mu.Lock()
	f.sent = next.Next - 1
	close(f.moved)
	f.moved = make(chan struct{})
	f.mu.Unlock()
	if time.Since(f.saved) >= saveEvery {
		f.settle()
	}
}

// settle makes the cursor durable and only then removes what lies before it.
func (f *forwarder) settle() {
	if err := f.save(); err != nil {
		f.l.log.Error("cursor not written", slog.Any("error", err))
		return
	}
	if err := f.l.spool.Trim(f.cur.Next); err != nil {
		f.l.log.Error("spool not trimmed", slog.Any("error", err))
	}
}

func (f *forwarder) save() error {
	f.saved = time.Now()
	if !f.unsafe {
		return nil
	}
	if err := f.cur.save(f.l.cfg.FS, f.l.cfg.Dir); err != nil {
		return err
	}
	f.unsafe = false
	return nil
}

// await returns once everything up to seq is safe.
func (f *forwarder) await(ctx context.Context, seq uint64) error {
	for {
		f.mu.Lock()
		sent, moved := f.sent, f.moved
		f.mu.Unlock()
		if sent >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-f.gone:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// failed logs the first of a row of failures, and then every tenth.
func (f *forwarder) failed(try int, step string, err error) {
	if try%10 == 0 {
		f.l.log.Warn("forwarding is held up, trying again", slog.String("step", step), slog.Int("try", try+1), slog.Any("error", err))
	}
}

func (f *forwarder) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// backoff doubles from 50 ms to 5 s, and takes off up to half at random.
func backoff(try int) time.Duration {
	d := min(backoffFirst<<min(try, 10), backoffMost)
	return d - rand.N(d/2)
}

// oldestUnsent is the time of the oldest event that is not safe in the sink.
func (f *forwarder) oldestUnsent() time.Time {
	if us := f.oldest.Load(); us != 0 {
		return time.UnixMicro(us)
	}
	return time.Time{}
}

func (f *forwarder) addStats(st *Stats) {
	f.mu.Lock()
	st.Sent = f.sent
	f.mu.Unlock()
	st.Oldest = f.oldestUnsent()
	st.Delivered, st.SendErrors, st.Dead = f.count.delivered.Load(), f.count.errors.Load(), f.count.dead.Load()
}
