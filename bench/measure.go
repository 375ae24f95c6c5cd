package main

import (
	"context"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// locker takes a lock and gives it back. It is used by many goroutines at once.
type locker interface {
	pair(ctx context.Context, key string) error
	Close() error
}

// cell is what one locker did in one slice of time.
type cell struct {
	pairs  float64 // a second
	p50    float64 // µs from the call of lock to the return of unlock
	p99    float64
	allocs float64 // a pair, of the whole process
	client float64 // µs of processor time a pair, of the whole process
	server float64 // the same of the Redis
	errors int
	first  error // of them
}

// keysEach is how many keys a goroutine uses in turn.
const keysEach = 8

// measure lets n goroutines lock and unlock, each on keys of its own, for that long. The
// keys' names begin with under.
// Processor time is told beside the clock's, because others on the machine hardly change it.
func (s *session) measure(ctx context.Context, l locker, under string, n int, slice time.Duration) (cell, error) {
	served, err := s.serverTime(ctx)
	if err != nil {
		return cell{}, err
	}
	hands := s.crew(n, under)
	var ready, work sync.WaitGroup
	var stop atomic.Bool
	begin := make(chan struct{})
	ready.Add(n)
	for _, h := range hands {
		work.Go(func() {
			ready.Done()
			<-begin
			for i := 0; !stop.Load(); i++ {
				h.once(ctx, l, i)
			}
		})
	}
	ready.Wait()
	runtime.GC() // so that nobody pays for another's garbage
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	spent := ownTime()
	began := time.Now()
	timer := time.AfterFunc(slice, func() { stop.Store(true) })
	defer timer.Stop()
	close(begin)
	work.Wait()
	took := time.Since(began)
	spent = ownTime() - spent
	runtime.ReadMemStats(&after)
	servedAfter, err := s.serverTime(ctx)
	if err != nil {
		return cell{}, err
	}

	var all histogram
	var c cell
	for _, h := range hands {
		all.add(h.took)
		c.errors += h.errors
		if c.first == nil {
			c.first = h.first
		}
	}
	c.pairs = float64(all.n) / took.Seconds()
	c.p50, c.p99 = all.at(.5), all.at(.99)
	each := 1 / float64(max(all.n, 1))
	c.allocs = float64(after.Mallocs-before.Mallocs) * each
	c.client = float64(spent.Microseconds()) * each
	c.server = float64((servedAfter - served).Microseconds()) * each
	return c, nil
}

// ownKeys are the keys of one goroutine, which meets nobody there.
func ownKeys(under string, goroutine int) []string {
	keys := make([]string, keysEach)
	for i := range keys {
		keys[i] = under + ":" + strconv.Itoa(goroutine) + ":" + strconv.Itoa(i)
	}
	return keys
}

// crew are n hands that have done nothing yet. Their histograms serve turn after turn: made
// anew for each, they were more of an allocation profile than any contender.
func (s *session) crew(n int, under string) []*hand {
	for len(s.hands) < n {
		s.hands = append(s.hands, &hand{took: new(histogram)})
	}
	for g, h := range s.hands[:n] {
		*h.took = histogram{}
		*h = hand{keys: ownKeys(under, g), took: h.took}
	}
	return s.hands[:n]
}

// hand is one goroutine at work.
type hand struct {
	keys   []string
	took   *histogram
	errors int
	first  error
}

func (h *hand) once(ctx context.Context, l locker, i int) {
	began := time.Now()
	err := l.pair(ctx, h.keys[i%len(h.keys)])
	if err == nil {
		h.took.count(time.Since(began))
		return
	}
	if h.errors++; h.first == nil {
		h.first = err
	}
}

// histogram counts times in steps of at most 1/32 of themselves, without an allocation.
type histogram struct {
	n     int
	steps [64 * 32]uint32
}

func (h *histogram) count(took time.Duration) {
	h.n++
	h.steps[step(uint64(max(took, 0)))]++
}

func (h *histogram) add(other *histogram) {
	h.n += other.n
	for i, n := range other.steps {
		h.steps[i] += n
	}
}

// at is the time in µs that a share q of all took at most.
func (h *histogram) at(q float64) float64 {
	left := int(q * float64(h.n))
	for i, n := range h.steps {
		if left -= int(n); left < 0 {
			return float64(middle(i)) / 1000
		}
	}
	return 0
}

// step is where ns is counted: below 32 each by itself, above by the highest five bits
// behind the first.
func step(ns uint64) int {
	if ns < 32 {
		return int(ns)
	}
	shift := bits.Len64(ns) - 6
	return shift*32 + int(ns>>shift)
}

// middle is the time in ns in the middle of a step.
func middle(i int) uint64 {
	if i < 64 {
		return uint64(i)
	}
	shift := i/32 - 1
	return uint64(i-shift*32)<<shift + uint64(1)<<shift/2
}

// spread is the median of some rounds and how far they were apart.
type spread struct{ median, least, most float64 }

func spreadOf(rounds []cell, of func(cell) float64) spread {
	all := make([]float64, len(rounds))
	for i, c := range rounds {
		all[i] = of(c)
	}
	return spreadOver(all)
}

func spreadOver(all []float64) spread {
	slices.Sort(all)
	half := len(all) / 2
	median := all[half]
	if len(all)%2 == 0 {
		median = (all[half-1] + all[half]) / 2
	}
	return spread{median, all[0], all[len(all)-1]}
}
