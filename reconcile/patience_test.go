package reconcile

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// A database that answers nothing any more, behind connections that stand: each call ends, the
// job says what hangs and since when, commits nothing, and stores what it has found when the
// database is back.
func TestADatabaseThatHangsIsToldAndWaitedFor(t *testing.T) {
	dsn, err := url.Parse(servers.Postgres(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	w, err := way.To(dsn.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	dsn.Host = w.Addr()
	b := database{Postgres, "pgx", dsn.String()}
	table, err := SQLFindings(b.open(t), Postgres)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Become(way.BlackHole)

	s := newStream(1)
	for _, name := range []string{"p", "q"} {
		p, iv := s.producer(name), nowHold(t, name, tierlock.Bypass, time.Second)
		p.write(acquireOf(&iv))
		p.write(endOf(&iv))
		p.seal(iv.EndedAt)
	}
	j := mustJob(t, Config{Source: s.join(), Findings: []Findings{table}, StoreTimeout: 200 * time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- j.Run(t.Context()) }()
	soon := func(what string, holds func() bool) {
		t.Helper()
		for patience := time.Now().Add(time.Minute); !holds(); {
			if time.Now().After(patience) {
				t.Fatalf("%s has not come: %+v, %+v", what, j.Stats(), j.Troubles())
			}
			tick := time.NewTimer(10 * time.Millisecond)
			<-tick.C
		}
	}
	soon("a second try", func() bool { return j.Stats().StoreTimeouts >= 2 })
	if n := j.Report().StoreTimeouts; n < 2 {
		t.Errorf("the report tells %d timeouts", n)
	}
	troubles := j.Troubles()
	if len(troubles) != 1 || !troubles[0].Hangs || troubles[0].Since.IsZero() {
		t.Errorf("%+v", troubles)
	}
	s.mu.Lock()
	marks := len(s.marks)
	if m := s.marks[0]; marks > 0 && m.Offset > 0 {
		t.Errorf("committed at %+v, and nothing is stored", m)
	}
	s.mu.Unlock()
	w.Become(way.None)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if all, err := table.List(t.Context()); err != nil || len(all) != 1 || len(j.Troubles()) != 0 {
		t.Errorf("%+v, %v; %+v", all, err, j.Troubles())
	}
}

// hanging stores nothing, and returns when its ctx ends, until let go.
type hanging struct {
	mu   sync.Mutex
	free bool
	fail bool // return an error at once instead
}

func (h *hanging) set(free, fail bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free, h.fail = free, fail
}

func (h *hanging) Put(ctx context.Context, _ Finding) error {
	h.mu.Lock()
	free, fail := h.free, h.fail
	h.mu.Unlock()
	switch {
	case free:
		return nil
	case fail:
		return errors.New("no")
	}
	<-ctx.Done()
	return ctx.Err()
}

// The trouble lasts from the first failure to the first success, whatever it is in between; a
// hook that hangs is one of its own.
func TestTroublesLastAsLongAsTheyDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, stuck := &hanging{}, true
		l := runLive(t, func(c *Config) {
			c.Findings = append(c.Findings, store)
			c.Hooks = map[string]Hook{"coupon": {Check: CheckFunc(func(ctx context.Context, _ Case) (int64, error) {
				if stuck {
					<-ctx.Done()
				}
				return 0, ctx.Err()
			})}}
		})
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, nil, p, q)
		conflict(t, p, q)
		pass(10*time.Second, nil, p, q)
		if got := l.job.Troubles(); len(got) != 0 {
			t.Fatalf("%+v within the first call", got)
		}
		pass(2*time.Minute, nil, p, q)
		got := l.job.Troubles()
		if len(got) != 1 || got[0].Step != "store_finding" || !got[0].Hangs || l.job.Stats().StoreTimeouts < 3 {
			t.Fatalf("%+v, %+v", got, l.job.Stats())
		}
		since, before := got[0].Since, l.job.Stats().StoreTimeouts
		store.set(false, true)
		pass(time.Minute, nil, p, q)
		if got := l.job.Troubles(); len(got) != 1 || got[0].Hangs || !got[0].Since.Equal(since) || l.job.Stats().StoreTimeouts > before+1 {
			t.Errorf("%+v, %+v", got, l.job.Stats())
		}
		store.set(true, false)
		pass(2*time.Minute, nil, p, q)
		if got := l.job.Troubles(); len(got) != 1 || got[0].Step != "hook coupon" || !got[0].Hangs {
			t.Errorf("%+v", got)
		}
		stuck = false
		pass(10*time.Minute, nil, p, q)
		if got := l.job.Troubles(); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// stuckApprovals answer nothing before their ctx ends.
type stuckApprovals struct{ Approvals }

func (stuckApprovals) Decided(ctx context.Context, _ time.Time, _ int) ([]Approval, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuckApprovals) Pending(ctx context.Context, _ time.Time) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// Approvals that hang are told, and findings are stored all the same.
func TestApprovalsThatHangKeepNoFindingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, applying(newLedger(), &locker{tier: tierlock.Shared}, func(c *Config) { c.Approvals = stuckApprovals{} }))
		p, q := l.producer("p"), l.producer("q")
		pass(time.Second, sharedTiers, p, q)
		conflict(t, p, q)
		pass(10*time.Minute, sharedTiers, p, q)
		got := l.job.Troubles()
		if len(got) != 1 || got[0].Step != stepApprovals || !got[0].Hangs || l.job.Stats().StoreTimeouts < 2 || len(l.store.standing(KindOverlap)) != 1 {
			t.Errorf("%+v, %+v", got, l.job.Stats())
		}
	})
}

// A hook that hung at its case's last try is no trouble once nothing waits for it, though
// nobody calls it again; one that has not returned hangs until it has.
func TestAHookNobodyWaitsForIsNoTrouble(t *testing.T) {
	for name, heeds := range map[string]bool{"gives up": true, "goes on": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				l := runLive(t, func(c *Config) {
					c.Caps.Tries = 3
					c.Hooks = map[string]Hook{"coupon": {Check: CheckFunc(func(ctx context.Context, _ Case) (int64, error) {
						if heeds {
							<-ctx.Done()
						} else {
							<-release
						}
						return 0, ctx.Err()
					})}}
				})
				p, q := l.producer("p"), l.producer("q")
				pass(time.Second, nil, p, q)
				conflict(t, p, q)
				pass(time.Minute, nil, p, q)
				if got := l.job.Troubles(); len(got) != 1 || got[0].Step != "hook coupon" {
					t.Errorf("while it is tried: %+v", got)
				}
				pass(4*time.Minute, nil, p, q)
				if f := l.store.standing(KindOverlap); len(f) != 1 || f[0].State != StateFailed {
					t.Fatalf("%+v", f)
				}
				got := l.job.Troubles()
				if heeds && len(got) != 0 {
					t.Errorf("%+v, and no case is left", got)
				}
				if pass(time.Hour, nil, p, q); !heeds {
					if got := l.job.Troubles(); len(got) != 1 || got[0].Step != "hook coupon" {
						t.Errorf("%+v, and its call has not returned", got)
					}
				}
				close(release)
				pass(10*time.Second, nil, p, q)
				if got := l.job.Troubles(); len(got) != 0 {
					t.Errorf("%+v, and it has returned", got)
				}
			})
		})
	}
}

// A step that is not called again is no trouble for ever; one that fails after that has a new
// beginning.
func TestTroublesThatAreNotMetAgainAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, fails := newPatience(time.Minute), func(context.Context) error { return errors.New("no") }
		begun := time.Now()
		for range 10 { // as far apart as tries of one step can be
			if err := p.ask(t.Context(), "find_finding", fails); err == nil {
				t.Fatal("it works")
			}
			time.Sleep(70 * time.Second)
		}
		if got := p.list(); len(got) != 1 || !got[0].Since.Equal(begun) {
			t.Errorf("%+v while it fails, since %v", got, begun)
		}
		time.Sleep(outlived)
		if got := p.list(); len(got) != 0 {
			t.Errorf("%+v, and nobody calls it", got)
		}
		begun = time.Now()
		_ = p.ask(t.Context(), "find_finding", fails)
		if got := p.list(); len(got) != 1 || !got[0].Since.Equal(begun) {
			t.Errorf("%+v, want since %v", got, begun)
		}
	})
}
