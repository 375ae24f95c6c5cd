//go:build !nodemo

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/examples/order"
	"github.com/tierlock/tierlock/internal/trace"
)

const (
	againEvery = 50 // every so many lines of the trace is delivered twice at once
	traceStock = 1e6
	tellers    = 10 // events of a trace that are served at once: too few to fill two wires by catching up
)

// replay brings the customers of a trace. Each of its events goes to one of the instances;
// every fiftieth goes to both at once, as a message queue may deliver one message twice.
type replay struct {
	file   *os.File
	reader *trace.Reader
	window trace.Window
	load   *load
	length time.Duration // how long it takes, from its first event to its last

	queue chan func()
	work  sync.WaitGroup
	stop  context.CancelFunc // nil before start
	done  chan struct{}      // closed when the last event has been served
	count int                // events delivered; read after done
	again int                // of them, delivered a second time; read after done
	took  time.Duration      // from start until the last event had been served; read after done
	err   error              // read after done
}

// openReplay opens the file and finds out how long its window is.
func openReplay(path string, w trace.Window, l *load) (*replay, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &replay{file: f, window: w, load: l, queue: make(chan func()), done: make(chan struct{})}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *replay) open() (err error) {
	last, err := lastEvent(r.file)
	if err != nil {
		return err
	}
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if r.reader, err = trace.NewReader(r.file); err != nil {
		return err
	}
	if r.window.From.IsZero() {
		first, err := r.reader.Next()
		if err != nil {
			return fmt.Errorf("the trace holds no event: %w", err)
		}
		r.window.From = first.At
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if r.reader, err = trace.NewReader(r.file); err != nil {
			return err
		}
	}
	span := last.Sub(r.window.From)
	if span < 0 {
		return fmt.Errorf("the trace ends at %s, before --from", last.Format(time.RFC3339))
	}
	if r.window.For > 0 {
		span = min(span, r.window.For)
	}
	r.length = time.Duration(float64(span) / r.window.Speed)
	return nil
}

// lastEvent reads the time of the file's last line.
func lastEvent(f *os.File) (time.Time, error) {
	const tail = 4096
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	b := make([]byte, min(tail, info.Size()))
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		return time.Time{}, err
	}
	b = bytes.TrimRight(b, "\n")
	line := string(b[bytes.LastIndexByte(b, '\n')+1:])
	at, _, _ := strings.Cut(line, ",")
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return t, errors.New("the trace's last line holds no event")
	}
	return t, nil
}

// start begins; wait waits for the last event to be served, halt for those under way.
func (r *replay) start(ctx context.Context) {
	ctx, r.stop = context.WithCancel(ctx)
	for range tellers {
		r.work.Go(func() {
			for do := range r.queue {
				do()
			}
		})
	}
	began := time.Now()
	go func() { // halt waits for it
		defer close(r.done)
		_, r.err = trace.Replay(ctx, r.reader, r.window, func(ev trace.Event) { r.deliver(ctx, ev) })
		close(r.queue)
		r.work.Wait()
		r.took = time.Since(began)
	}()
}

// summary tells what the replay brought, and whether it kept the pace it was asked for:
// nothing is left out, so what is served slower than it comes makes the rest late.
func (r *replay) summary() string {
	s := fmt.Sprintf("the trace brought %d sales and claims, %d of them twice, in %v", r.count, r.again, r.took.Round(time.Second))
	if late := (r.took - r.length).Round(time.Second); late > 0 {
		s += fmt.Sprintf(": %v longer than --speed asked for, since every event is served and none is left out", late)
	}
	return s
}

func (r *replay) wait() error {
	<-r.done
	return r.err
}

func (r *replay) halt() {
	r.stop()
	<-r.done
}

func (r *replay) close() error { return r.file.Close() }

// deliver hands one event to whoever is free.
func (r *replay) deliver(ctx context.Context, ev trace.Event) {
	r.count++
	serve := r.server(ctx, ev)
	first := r.count % len(r.load.instances)
	r.queue <- func() { serve(r.load.instances[first]) }
	if r.count%againEvery == 0 {
		r.again++
		r.queue <- func() { serve(r.load.instances[(first+1)%len(r.load.instances)]) }
	}
}

func (r *replay) server(ctx context.Context, ev trace.Event) func(*instance) {
	if ev.Kind == trace.Claim {
		c := coupon.Claim{User: "h" + ev.Who, Coupon: ev.What}
		return func(in *instance) { r.load.claim(ctx, in, "coupon", c) }
	}
	o := order.Order{ID: ev.ID, SKU: ev.What}
	return func(in *instance) {
		if err := r.load.shop.offer(ctx, o.SKU, traceStock); err != nil {
			r.load.judge(err)
			return
		}
		r.load.place(ctx, in, o)
	}
}
