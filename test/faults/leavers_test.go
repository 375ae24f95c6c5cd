package faults

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

const (
	// patient is an attempt that is much longer than leaving may take.
	patient = 2 * time.Second
	// soon is how long leaving may take, without what the machine takes: far less than
	// patient, far more than a wake-up.
	soon = 500 * time.Millisecond
)

// leavers are callers of one site, and what they start, by a label on their goroutines: the
// process of the tests has many others.
type leavers struct {
	*site
	label string
	ctx   context.Context
	leave context.CancelFunc
	all   sync.WaitGroup

	mu   sync.Mutex
	left time.Time // guarded by mu
	got  []answer  // took is counted from left; guarded by mu
}

func (s *site) leavers() *leavers {
	l := &leavers{site: s, label: tierlock.NewRequestID().Fingerprint()}
	l.ctx, l.leave = context.WithCancel(s.Context())
	s.Cleanup(func() { l.leave(); l.all.Wait() })
	return l
}

// labelled runs f on a goroutine that is counted among theirs.
func (l *leavers) labelled(f func()) {
	l.all.Go(func() {
		pprof.Do(context.Background(), pprof.Labels("leavers", l.label), func(context.Context) { f() })
	})
}

// come has one caller ask for each id.
func (l *leavers) come(c *gateway.Chain, opts []gateway.Option, ids ...string) {
	for _, id := range ids {
		l.labelled(func() {
			lock, err := c.TryLock(l.ctx, id, opts...)
			now := time.Now()
			l.mu.Lock()
			defer l.mu.Unlock()
			a := answer{lock: lock, err: err}
			if !l.left.IsZero() {
				a.took = now.Sub(l.left) - beat.Stalled(l.left, now)
			}
			l.got = append(l.got, a)
		})
	}
}

// go away together, and check that each of n had one outcome, its own context's end, and
// had it soon. inDoubt is whether the store may have got what they asked.
func (l *leavers) goAway(n int, inDoubt bool) {
	l.Helper()
	l.mu.Lock()
	if len(l.got) > 0 {
		l.Errorf("%d were answered before they left, first: %v", len(l.got), l.got[0])
	}
	l.left = time.Now()
	l.mu.Unlock()
	l.leave()
	l.eventually(2*patient, "all who left are answered", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.got) >= n
	})
	l.all.Wait()
	for _, a := range l.got {
		if !errors.Is(a.err, tierlock.ErrTimeout) || a.reason() != tierlock.ReasonCanceled || !errors.Is(a.err, context.Canceled) || a.lock != nil {
			l.Errorf("got %v, reason %q, lock %v", a, a.reason(), a.lock)
		}
		if f, _ := errors.AsType[*tierlock.Fault](a.err); (f != nil && f.InDoubt) != inDoubt {
			l.Errorf("got %v, want in doubt: %t", a, inDoubt)
		}
		if a.took > soon {
			l.Errorf("answered %v after it left", a.took)
		}
	}
}

// stand counts their goroutines that are in all of these functions.
func (l *leavers) stand(in ...string) (n int) {
	l.Helper()
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		l.Fatal(err)
	}
	for stack := range strings.SplitSeq(text.String(), "\n\n") {
		fits := strings.Contains(stack, strconv.Quote(l.label))
		for _, f := range in {
			fits = fits && strings.Contains(stack, f)
		}
		if count, _, ok := strings.Cut(stack, " @ "); ok && fits {
			if i := strings.LastIndexByte(count, '\n'); i >= 0 {
				count = count[i+1:]
			}
			k, err := strconv.Atoi(count)
			if err != nil {
				l.Fatalf("goroutine profile: %v in %q", err, count)
			}
			n += k
		}
	}
	return n
}

// nothingStays checks that no goroutine of theirs is left, and nothing on the wire.
func (l *leavers) nothingStays() {
	l.Helper()
	l.eventually(10*time.Second, "no goroutine of those who left runs", func() bool { return l.stand() == 0 })
	l.wireIsEmpty()
	l.serves()
	l.nothingIsLeft()
}

// wireIsEmpty waits until nothing is on the wire.
func (s *site) wireIsEmpty() {
	s.Helper()
	s.eventually(5*time.Second, "nothing is on the wire", func() bool { return s.out() == 0 })
}

// out is how much is on the wire.
func (s *site) out() (sum int) {
	for _, c := range s.gw.Status().Chains {
		for _, target := range c.Targets {
			sum += target.Own
		}
	}
	return sum
}

// patiently is a policy under which nobody who waits for the store or the disk gives up by
// himself, and nobody is kept from asking.
func patiently(p *gateway.Policy) {
	p.Attempt = patient
	p.Ladder.Observe = true
}

func numbered(t *testing.T, prefix string, n int) (ids []string) {
	t.Helper()
	for i := range n {
		ids = append(ids, prefix+strconv.Itoa(i))
	}
	return ids
}
