//go:build !nodemo

package demo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

func key(t *testing.T, s string) tierlock.Key {
	t.Helper()
	k, err := tierlock.ParseKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func held(k tierlock.Key, from, to time.Duration) *hold {
	h := &hold{key: k, id: tierlock.NewRequestID(), from: int64(from)}
	h.to.Store(int64(to))
	h.outer = span{h.from - int64(time.Millisecond), int64(to) + int64(time.Millisecond)}
	return h
}

func TestOverlapsAndGroups(t *testing.T) {
	const ms = time.Millisecond
	a, b := key(t, "a"), key(t, "b")
	for name, c := range map[string]struct {
		holds         []*hold
		least         time.Duration
		pairs, groups int
	}{
		"one after the other":                 {[]*hold{held(a, 0, 10*ms), held(a, 10*ms, 20*ms)}, 0, 0, 0},
		"two at once":                         {[]*hold{held(a, 0, 10*ms), held(a, 5*ms, 20*ms)}, 0, 1, 1},
		"two at once, too short to count":     {[]*hold{held(a, 0, 10*ms), held(a, 9*ms, 20*ms)}, ms, 0, 0},
		"two keys":                            {[]*hold{held(a, 0, 10*ms), held(b, 5*ms, 20*ms)}, 0, 0, 0},
		"a chain is one group":                {[]*hold{held(a, 0, 10*ms), held(a, 8*ms, 20*ms), held(a, 18*ms, 30*ms)}, 0, 2, 1},
		"one long hold over two short ones":   {[]*hold{held(a, 0, 30*ms), held(a, 1*ms, 5*ms), held(a, 10*ms, 15*ms)}, 0, 2, 1},
		"three at once are three pairs":       {[]*hold{held(a, 0, 30*ms), held(a, 0, 30*ms), held(a, 0, 30*ms)}, 0, 3, 1},
		"two groups of one key":               {[]*hold{held(a, 0, 10*ms), held(a, 5*ms, 15*ms), held(a, 20*ms, 30*ms), held(a, 25*ms, 35*ms)}, 0, 2, 2},
		"a short one ends before a later one": {[]*hold{held(a, 0, 2*ms), held(a, 1*ms, 30*ms), held(a, 5*ms, 6*ms)}, 0, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			pairs := overlaps(c.holds, (*hold).inner, c.least)
			if len(pairs) != c.pairs || groups(pairs) != c.groups {
				t.Fatalf("%d pairs in %d groups, want %d in %d", len(pairs), groups(pairs), c.pairs, c.groups)
			}
		})
	}
}

func TestInnerSpanLiesWithinTheHoldAndOuterAroundIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOracle(time.Now())
		ctx, c := o.begin(t.Context())
		time.Sleep(time.Second) // waiting for the lock
		leave := o.watch(ctx, tierlock.Grant{Key: key(t, "a")})
		time.Sleep(time.Second) // work
		leave()
		time.Sleep(time.Second) // unlocking
		c.end()
		h := o.all()[0]
		if h.outer != (span{0, int64(3 * time.Second)}) || h.inner() != (span{int64(time.Second), int64(2 * time.Second)}) {
			t.Fatalf("outer %v, inner %v", h.outer, h.inner())
		}
	})
}

func TestAHoldEndsWithTheContextOfItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOracle(time.Now())
		ctx, c := o.begin(t.Context())
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		leave := o.watch(ctx, tierlock.Grant{Key: key(t, "a")})
		time.Sleep(5 * time.Second) // works on, though the lock is gone
		leave()
		c.end()
		if got := o.all()[0].inner().to; got != int64(time.Second) {
			t.Fatalf("the hold ended after %v", time.Duration(got))
		}
	})
}
