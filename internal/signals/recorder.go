package signals

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

const (
	lookEvery  = 90 * time.Millisecond // between two looks that tell of load alone; a ladder looks ten times a second
	signEvery  = 5 * time.Second       // a look that tells nothing new, as a sign that the recording goes on
	countEvery = time.Second           // calls are counted for so long
	waiting    = 4096                  // lines that may wait for the disk
	minBytes   = 1 << 20
)

// Config of a [Recorder].
type Config struct {
	Path     string                    // of the recording; an older one, and a full one, is renamed to Path.1
	MaxBytes int64                     // of one file; default 64 MiB, at least 1 MiB
	Chains   map[string]gateway.Policy // whose health is recorded
	Logger   *slog.Logger              // nil: discard
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, tierlock.Invalid("file", "", "is required"))
	}
	if c.MaxBytes != 0 && c.MaxBytes < minBytes {
		errs = append(errs, tierlock.Invalid("max_bytes", strconv.FormatInt(c.MaxBytes, 10), fmt.Sprintf("want at least %d, or 0 for 64 MiB", minBytes)))
	}
	return errors.Join(errs...)
}

// Recorder writes what the health machines of a gateway see into a file. It never holds a
// caller up: what comes faster than the disk takes it is dropped and counted.
type Recorder struct {
	cfg   Config
	lines chan line
	quit  chan struct{}
	done  chan struct{}
	close sync.Once

	mu      sync.Mutex
	looks   map[ladder]*look          // guarded by mu
	orders  map[string]order          // by chain; guarded by mu
	calls   map[string]map[string]int // by chain and what they got; guarded by mu
	dropped int64                     // guarded by mu

	file *os.File // of the writer alone, like what follows
	out  *bufio.Writer
	size int64
	err  error // nothing is written any more
}

type ladder struct{ chain, target string }

// look is what was last seen and written of a ladder.
type look struct {
	seen    gateway.ExplainedSignals
	at      time.Time // of the last look
	written time.Time
	stands  stands
}

// Open begins a recording.
func Open(cfg Config) (*Recorder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 64 << 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Recorder{
		cfg: cfg, lines: make(chan line, waiting), quit: make(chan struct{}), done: make(chan struct{}),
		looks: map[ladder]*look{}, orders: map[string]order{}, calls: map[string]map[string]int{},
	}
	if err := r.begin(true); err != nil {
		return nil, fmt.Errorf("record signals: %w", err)
	}
	go r.run()
	return r, nil
}

// Hooks are what the gateway has to tell.
func (r *Recorder) Hooks() gateway.Hooks {
	return gateway.Hooks{Sensed: r.sensed, Stepped: r.stepped, Ordered: r.ordered, Acquired: r.acquired}
}

func (r *Recorder) sensed(i gateway.SenseInfo) {
	id := ladder{i.Chain, i.Target}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lookLocked(id, i.At)
	if !i.At.After(l.at) {
		return // overtaken by a later look
	}
	l.at = i.At
	since := i.At.Sub(l.written)
	switch {
	case i.Signals == l.seen && since < signEvery:
		return
	case !telling(i.Signals, l.seen) && since < lookEvery:
		return
	}
	l.seen, l.written = i.Signals, i.At
	r.putLocked(line{At: i.At, Chain: i.Chain, Target: i.Target, Signals: &i.Signals})
}

func (r *Recorder) lookLocked(id ladder, at time.Time) *look {
	l := r.looks[id]
	if l == nil {
		l = &look{stands: stands{State: degrade.Normal, Since: at}}
		r.looks[id] = l
	}
	return l
}

// telling tells whether a look differs in more than the load: what a machine may step by at
// once. Counts beyond every threshold are alike.
func telling(a, b gateway.ExplainedSignals) bool {
	for _, s := range []*gateway.ExplainedSignals{&a, &b} {
		s.Occupancy, s.WeakOccupancy = 0, 0
		s.Timeouts, s.Failures, s.Probes, s.FastProbes = min(s.Timeouts, 64), min(s.Failures, 64), min(s.Probes, 64), min(s.FastProbes, 64)
		s.Unanswered = min(s.Unanswered, 1)
	}
	return a != b
}

func (r *Recorder) stepped(i gateway.StepInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookLocked(ladder{i.Chain, i.Target}, i.At).stands = stands{i.To, i.Reason, i.At}
	r.putLocked(line{At: i.At, Chain: i.Chain, Target: i.Target, Step: &Step{From: i.From, To: i.To, Reason: i.Reason}})
}

func (r *Recorder) ordered(i gateway.OrderInfo) {
	o := order{Mode: max(i.Order.Mode, tierlock.ModeAuto), Until: i.Order.Until, Percent: i.Order.Percent, Version: i.Order.Version}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders[i.Chain] = o
	r.putLocked(line{At: time.Now(), Chain: i.Chain, Order: &o})
}

func (r *Recorder) acquired(i gateway.AcquireInfo) {
	if i.Entered || i.Verdict.Reason == tierlock.ReasonCanceled {
		return // neither asks the ladder, or waits for its answer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[i.Chain]
	if c == nil {
		c = map[string]int{}
		r.calls[i.Chain] = c
	}
	c[got(i.Verdict)]++
}

// putLocked hands a line to the writer, or drops it.
func (r *Recorder) putLocked(l line) {
	select {
	case r.lines <- l:
	default:
		r.dropped++
	}
}

// Close ends the recording, what waits included, and returns what went wrong with the file.
func (r *Recorder) Close() error {
	r.close.Do(func() { close(r.quit) })
	<-r.done
	return r.err
}

// run is the one writer.
func (r *Recorder) run() {
	defer close(r.done)
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case l := <-r.lines:
			r.write(l)
		case now := <-tick.C:
			r.count(now)
			r.flush()
		case <-r.quit:
			for {
				select {
				case l := <-r.lines:
					r.write(l)
					continue
				default:
				}
				r.count(time.Now())
				r.flush()
				if err := r.file.Close(); r.err == nil {
					r.err = err
				}
				return
			}
		}
	}
}

// count writes how many calls there were.
func (r *Recorder) count(now time.Time) {
	r.mu.Lock()
	calls, dropped := r.calls, r.dropped
	r.calls, r.dropped = map[string]map[string]int{}, 0
	r.mu.Unlock()
	for _, chain := range slices.Sorted(maps.Keys(calls)) {
		r.write(line{At: now, Chain: chain, Calls: calls[chain]})
	}
	if dropped > 0 {
		r.write(line{At: now, Dropped: dropped})
	}
}

func (r *Recorder) write(l line) {
	if r.err != nil {
		return
	}
	l.At = l.At.UTC().Round(time.Microsecond)
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	if r.size += int64(len(text)) + 1; err == nil && r.size >= r.cfg.MaxBytes {
		err = r.turn()
	}
	r.failed(err)
}

func (r *Recorder) flush() {
	if r.err == nil {
		r.failed(r.out.Flush())
	}
}

// failed ends the recording: it is an aid, and must not fill the log of a service.
func (r *Recorder) failed(err error) {
	if err != nil {
		r.err = fmt.Errorf("record signals: %w", err)
		r.cfg.Logger.Error("signals are not recorded any more", "error", err)
	}
}

// turn goes on in a new file; the full one keeps its content under another name.
func (r *Recorder) turn() error {
	if err := errors.Join(r.out.Flush(), r.file.Close()); err != nil {
		return err
	}
	return r.begin(false)
}

// begin opens a file and writes what it must say to be read by itself.
func (r *Recorder) begin(start bool) error {
	if err := os.Rename(r.cfg.Path, r.cfg.Path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(r.cfg.Path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	r.file, r.out, r.size = file, bufio.NewWriterSize(file, 64<<10), 0
	for _, l := range r.heads(start) {
		r.write(l)
	}
	return r.err
}

// heads are the lines that a file begins with: the policies, and where all stands.
func (r *Recorder) heads(start bool) (heads []line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(r.cfg.Chains)) {
		heads = append(heads, line{At: now, Chain: name, Start: start, Policy: switchcfg.Words(r.cfg.Chains[name].Ladder)})
	}
	for name, o := range r.orders {
		heads = append(heads, line{At: now, Chain: name, Order: &o})
	}
	for id, l := range r.looks {
		state, seen := l.stands, l.seen
		heads = append(heads, line{At: now, Chain: id.chain, Target: id.target, Stands: &state})
		heads = append(heads, line{At: now, Chain: id.chain, Target: id.target, Signals: &seen})
	}
	return heads
}
