package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/tierlock/tierlock"
)

const (
	// lookEvery is the time from look to look while nothing goes wrong. Sentinels are few,
	// and nobody but they tells of a master that went while nobody asked for a lock; a
	// Cluster points to the right server by itself, and its map is long.
	lookEvery        = time.Second
	lookEveryCluster = 10 * time.Second
	// lookGap is the time from look to look while there is cause: a fault, a pointer, a
	// push. firstGap is the same while nothing is known yet.
	lookGap  = 200 * time.Millisecond
	firstGap = 50 * time.Millisecond
	// lookFor is how long a witness may take. Once one has answered, the others have
	// secondsFor to say something newer.
	lookFor    = 500 * time.Millisecond
	secondsFor = 50 * time.Millisecond
	// forget is how long an older report is not believed, when nobody has a newer one any
	// more: they were set up anew then, rather than cut off.
	forget = time.Minute
	// abreast is how many servers of a Cluster are asked in one go.
	abreast = 3
)

// scout finds out who serves what: it asks witnesses, in one goroutine that starts with the
// first question of the store.
type scout struct {
	cfg     *Config
	ask     func(ctx context.Context, w *witness) (report, error)
	install func(report)
	rest    func(now time.Time) // what else is to be done from time to time
	listen  func(ctx context.Context, w *witness)

	wake   chan struct{}   // buffered: look now
	ending context.Context //nolint:containedctx // ends with the store
	end    context.CancelFunc
	work   sync.WaitGroup // the loop and all that it starts

	mu      sync.Mutex // guards what follows; not held over I/O
	started bool
	closed  bool
	round   chan struct{} // closed when the look under way, or else the next, has ended
	err     error         // of the last look

	// Of the loop's goroutine alone.
	witnesses map[string]*witness
	best      int64     // highest epoch seen
	seen      time.Time // when it was last seen
	addrs     []string  // of the last report
	found     bool      // there was one
	blind     bool      // the last look found nobody, and that was told
}

func (s *scout) init(cfg *Config) {
	s.cfg = cfg
	s.wake = make(chan struct{}, 1)
	s.round = make(chan struct{})
	s.witnesses = map[string]*witness{}
	s.ending, s.end = context.WithCancel(context.Background())
}

// hint says that what is known may be wrong.
func (s *scout) hint() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// await returns when a look has ended, or with a fault when ctx's deadline comes first.
func (s *scout) await(ctx context.Context) error {
	s.mu.Lock()
	if !s.started && !s.closed {
		s.started = true
		s.work.Go(s.run)
	}
	round := s.round
	s.mu.Unlock()
	s.hint()
	deadline, _ := ctx.Deadline()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-round:
		return nil
	case <-s.ending.Done():
		return &tierlock.Fault{Reason: tierlock.ReasonBroken, Err: net.ErrClosed}
	case <-ctx.Done():
		return fault(ctx.Err())
	case <-timer.C:
		return fault(context.DeadlineExceeded)
	}
}

func (s *scout) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// run looks until the store is closed.
func (s *scout) run() {
	every := lookEvery
	if s.cfg.Cluster {
		every = lookEveryCluster
	}
	for {
		err := s.look()
		gap := lookGap
		if !s.found {
			gap = firstGap
		}
		s.mu.Lock()
		s.err = err
		close(s.round)
		s.round = make(chan struct{})
		s.mu.Unlock()
		s.rest(time.Now())
		if !s.sleep(jitter(gap), nil) || !s.sleep(jitter(every), s.wake) {
			break
		}
	}
	for _, w := range s.witnesses {
		w.close()
	}
}

// sleep returns after d or a token of wake; false when the store was closed.
func (s *scout) sleep(d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.ending.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}

// look asks the witnesses, some at once, until one knows something that can be believed.
func (s *scout) look() error {
	ctx, cancel := context.WithTimeout(s.ending, 2*lookFor)
	defer cancel()
	var errs []error
	for some := range slices.Chunk(s.order(), s.abreast()) {
		r, err := s.hear(ctx, some)
		if err == nil {
			s.believe(r)
			return nil
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if !s.blind && s.ending.Err() == nil {
		s.blind = true
		s.cfg.Logger.WarnContext(ctx, "redis: nobody tells who serves", slog.Any("error", err))
	}
	return err
}

func (s *scout) abreast() int {
	if s.cfg.Cluster {
		return abreast
	}
	return len(s.cfg.Addrs)
}

// order is whom to ask: the servers of the last report, in any order, then those configured.
func (s *scout) order() []string {
	addrs := slices.Clone(s.addrs)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, addr := range s.cfg.Addrs {
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// hear asks the witnesses at addrs at once and returns the newest report that one has. Those
// that have not answered by then are left behind; they end by their own deadline.
func (s *scout) hear(ctx context.Context, addrs []string) (report, error) {
	type answer struct {
		report
		err error
	}
	answers := make(chan answer, len(addrs)) // nobody may be there to take the last
	for _, addr := range addrs {
		w := s.witness(addr)
		s.work.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lookFor)
			defer cancel()
			r, err := s.ask(ctx, w)
			answers <- answer{r, err}
		})
	}
	var (
		newest report
		found  bool
		errs   []error
		late   <-chan time.Time
	)
	for range addrs {
		select {
		case a := <-answers:
			switch {
			case a.err != nil:
				errs = append(errs, a.err)
				continue
			case !s.credible(a.epoch, time.Now()):
				errs = append(errs, errOutdated)
				continue
			case !found || a.epoch > newest.epoch:
				newest = a.report
			}
			if !found {
				found = true
				timer := time.NewTimer(secondsFor)
				defer timer.Stop()
				late = timer.C
			}
		case <-late:
			return newest, nil
		}
	}
	if !found {
		return report{}, errors.Join(errs...)
	}
	return newest, nil
}

var errOutdated = errors.New("it knows less than was known before")

// credible tells whether a report of epoch can be believed now.
func (s *scout) credible(epoch int64, now time.Time) bool {
	return epoch >= s.best || now.Sub(s.seen) >= forget
}

// believe takes in a report that is credible.
func (s *scout) believe(r report) {
	if s.blind {
		s.blind = false
		s.cfg.Logger.Info("redis: it is told again who serves")
	}
	s.best, s.seen = r.epoch, time.Now()
	s.addrs, s.found = r.addrs, true
	for addr, w := range s.witnesses {
		if !slices.Contains(r.addrs, addr) && !slices.Contains(s.cfg.Addrs, addr) {
			delete(s.witnesses, addr)
			w.close()
		}
	}
	s.install(r)
}

// witness is the connection to a server that is asked who serves.
func (s *scout) witness(addr string) *witness {
	w := s.witnesses[addr]
	if w == nil {
		w = newWitness(s.cfg, addr)
		s.witnesses[addr] = w
		if s.listen != nil {
			s.work.Go(func() { s.listen(s.ending, w) })
		}
	}
	return w
}

func (s *scout) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.work.Wait()
}

// jitter spreads d by a quarter, so that many processes do not ask together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (.75 + .5*rand.Float64()))
}
