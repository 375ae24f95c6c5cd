package switchcfg

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

// fake is a source with a knob for everything that can go wrong.
type fake struct {
	mu      sync.Mutex
	text    string
	err     error
	hang    bool // until ctx ends
	deaf    bool // hang on past ctx's end
	free    chan struct{}
	fetches []time.Time
	most    int // calls at one time
	now     int
	watches int
	fails   error  // of Watch
	wake    func() // of the running Watch
}

func (f *fake) set(change func()) { f.mu.Lock(); change(); f.mu.Unlock() }

func (f *fake) Fetch(ctx context.Context) ([]byte, error) {
	f.mu.Lock()
	f.fetches = append(f.fetches, time.Now())
	f.now++
	f.most = max(f.most, f.now)
	text, err, hang, deaf := f.text, f.err, f.hang, f.deaf
	f.mu.Unlock()
	defer f.set(func() { f.now-- })
	switch {
	case deaf:
		<-f.free
		return nil, errors.New("too late")
	case hang:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []byte(text), err
}

// pushing is a fake that hints.
type pushing struct{ *fake }

func (p pushing) Watch(ctx context.Context, wake func()) error {
	p.mu.Lock()
	p.watches++
	fails := p.fails
	p.wake = wake
	p.mu.Unlock()
	if fails != nil {
		return fails
	}
	<-ctx.Done()
	return ctx.Err()
}

// bundle is a Follow under way in a bubble.
type bundle struct {
	src      *fake
	applied  []Document
	refuse   error
	reports  []Report
	log      *bytes.Buffer
	lastGood string
	stop     func()
}

func start(t *testing.T, src Source, f *fake, lastGood string) *bundle {
	t.Helper()
	return startWith(t, src, f, FollowConfig{LastGood: lastGood})
}

func startWith(t *testing.T, src Source, f *fake, cfg FollowConfig) *bundle {
	t.Helper()
	b := &bundle{src: f, log: new(bytes.Buffer), lastGood: cfg.LastGood}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	cfg.Logger = slog.New(slog.NewTextHandler(b.log, nil))
	cfg.Report = func(r Report) { f.set(func() { b.reports = append(b.reports, r) }) }
	go func() {
		done <- Follow(ctx, src, cfg, func(d Document) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if b.refuse == nil {
				b.applied = append(b.applied, d)
			}
			return b.refuse
		})
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// after lets d pass and returns the last report.
func (b *bundle) after(d time.Duration) Report {
	time.Sleep(d)
	synctest.Wait()
	b.src.mu.Lock()
	defer b.src.mu.Unlock()
	return b.reports[len(b.reports)-1]
}

func (b *bundle) versions() (v []uint64) {
	b.src.mu.Lock()
	defer b.src.mu.Unlock()
	for _, d := range b.applied {
		v = append(v, d.Version)
	}
	return v
}

// doc is a document with one order that ends after d.
func doc(version string, d time.Duration) string {
	return "version: " + version + "\nchains: {coupon: {mode: bypass, until: " + time.Now().Add(d).UTC().Format(time.RFC3339Nano) + ", reason: r, by: b}}"
}

func TestFollowAppliesEveryNewerDocumentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("1", time.Hour)}
		b := start(t, f, f, "")
		if r := b.after(time.Millisecond); r.Version != 1 || r.Fault != nil || r.Confirmed.IsZero() || len(r.Hash) != 16 {
			t.Errorf("report %+v", r)
		}
		b.after(time.Minute)
		f.set(func() { f.text = doc("7", time.Hour) })
		b.after(5 * time.Second)
		if v := b.versions(); !reflect.DeepEqual(v, []uint64{1, 7}) {
			t.Errorf("applied %v", v)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		different := map[time.Duration]bool{}
		for i := range len(f.fetches) - 1 {
			gap := f.fetches[i+1].Sub(f.fetches[i])
			different[gap] = true
			if gap < 3*time.Second || gap > 5*time.Second {
				t.Errorf("%v between two polls, want 4 s ± 25 %%", gap)
			}
		}
		if len(different) < 3 {
			t.Error("polls without jitter")
		}
	})
}

func TestFollowKeepsTheLastGoodDocument(t *testing.T) {
	for why, answer := range map[Why]func(f *fake){
		WhyUnanswered: func(f *fake) { f.err = errors.New("connection refused") },
		WhyEmpty:      func(f *fake) { f.text = " \n" },
		WhyUnreadable: func(f *fake) { f.text = doc("6", time.Hour)[:40] },
		WhyInvalid:    func(f *fake) { f.text = doc("6", 25*time.Hour) },
		WhyOlder:      func(f *fake) { f.text = doc("4", time.Hour) },
		WhyConflict:   func(f *fake) { f.text = doc("5", 2*time.Hour) },
		WhyExpired:    func(f *fake) { f.text = doc("6", -time.Second) },
	} {
		t.Run(string(why), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good := doc("5", time.Hour)
				f := &fake{text: good}
				b := start(t, f, f, "")
				was := b.after(time.Millisecond)
				f.set(func() { answer(f) })
				r := b.after(time.Minute)
				if r.Fault == nil || r.Fault.Why != why || r.Version != 5 || r.Hash != was.Hash || r.Confirmed != was.Confirmed || r.Edge {
					t.Errorf("report %+v", r)
				}
				if n := strings.Count(b.log.String(), "not followed"); n != 1 {
					t.Errorf("%d lines for one edge:\n%s", n, b.log)
				}
				f.set(func() { f.text, f.err = good, nil })
				if r = b.after(5 * time.Second); r.Fault != nil || r.Version != 5 {
					t.Errorf("report afterwards %+v", r)
				}
				if v := b.versions(); !reflect.DeepEqual(v, []uint64{5}) {
					t.Errorf("applied %v", v)
				}
				if !strings.Contains(b.log.String(), "followed again") {
					t.Errorf("no line at its end:\n%s", b.log)
				}
				edges := 0
				for _, r := range b.reports {
					if r.Edge {
						edges++
					}
				}
				if edges != 2 {
					t.Errorf("%d edges, want one up and one down", edges)
				}
			})
		})
	}
}

func TestFollowReportsARefusalOfTheOneWhoApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("1", time.Hour)}
		b := start(t, f, f, "")
		b.after(time.Millisecond)
		f.set(func() {
			f.text = doc("2", time.Hour)
			b.refuse = tierlock.Invalid("chains.order.mode", "bypass", "strong")
		})
		if r := b.after(5 * time.Second); r.Version != 1 || r.Fault == nil || r.Fault.Why != WhyRefused || r.Fault.Version != 2 || !errors.Is(r.Fault, tierlock.ErrInvalid) {
			t.Errorf("report %+v", r)
		}
		f.set(func() { b.refuse = nil })
		if r := b.after(5 * time.Second); r.Version != 2 || r.Fault != nil {
			t.Errorf("report %+v", r)
		}
	})
}

func TestFollowFetchesAtAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("1", time.Hour)}
		b := start(t, pushing{f}, f, "")
		b.after(time.Second)
		f.set(func() { f.text = doc("2", time.Hour) })
		f.wake()
		if r := b.after(time.Millisecond); r.Version != 2 {
			t.Errorf("report %+v", r)
		}
		f.set(func() { f.fetches = nil })
		for range 1000 { // a source gone mad
			f.wake()
			b.after(time.Millisecond)
		}
		if n := len(f.fetches); n < 4 || n > 6 {
			t.Errorf("%d fetches in a second of hints, want 5", n)
		}
	})
}

func TestFollowGoesOnWithoutHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("1", time.Hour), fails: errors.New("no")}
		b := start(t, pushing{f}, f, "")
		b.after(time.Minute)
		if f.watches < 12 || f.watches > 20 || strings.Count(b.log.String(), "hints no more") != 1 {
			t.Errorf("%d watches in a minute; log:\n%s", f.watches, b.log)
		}
	})
}

func TestFollowOutlivesAHangingSource(t *testing.T) {
	for name, deaf := range map[string]bool{"that hears ctx": false, "that does not": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{text: doc("1", time.Hour), free: make(chan struct{})}
				b := start(t, f, f, "")
				b.after(time.Millisecond)
				f.set(func() { f.hang, f.deaf = true, deaf })
				if r := b.after(time.Minute); r.Version != 1 || r.Fault == nil || r.Fault.Why != WhyUnanswered {
					t.Errorf("report %+v", r)
				}
				f.set(func() { f.hang, f.deaf, f.text = false, false, doc("2", time.Hour) })
				close(f.free)
				if r := b.after(15 * time.Second); r.Version != 2 || r.Fault != nil {
					t.Errorf("report afterwards %+v", r)
				}
				if f.most != 1 {
					t.Errorf("%d fetches at one time", f.most)
				}
			})
		})
	}
}

func TestFollowLeavesOutOrdersThatHavePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("3", time.Hour) + "\n"}
		f.text = strings.Replace(f.text, "{coupon:", "{cart: {mode: local, until: "+time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)+", reason: r, by: b}, coupon:", 1)
		b := start(t, f, f, "")
		if r := b.after(time.Millisecond); r.Version != 3 || r.Fault != nil {
			t.Fatalf("report %+v", r)
		}
		if got := b.applied[0].Chains; len(got) != 1 || got["coupon"].Mode != tierlock.ModeBypass {
			t.Errorf("applied %+v", got)
		}
		if r := b.after(2 * time.Hour); r.Fault != nil || r.Version != 3 || len(b.applied) != 1 {
			t.Errorf("once all has passed: %+v", r) // in force, with nothing left to order
		}
	})
}

func TestLastGoodServesARestartWithoutASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "switch.last")
		f := &fake{text: doc("9", time.Hour)}
		b := start(t, f, f, path)
		was := b.after(time.Millisecond)
		b.stop()
		if info, err := os.Stat(path); err != nil {
			t.Error(err)
		} else if info.Mode() != 0o600 {
			t.Errorf("the kept file has mode %v, want 0600", info.Mode())
		}

		time.Sleep(30 * time.Minute)
		f = &fake{err: errors.New("down")}
		b = start(t, f, f, path)
		if r := b.after(time.Millisecond); r.Version != 9 || r.Hash != was.Hash || !r.Confirmed.IsZero() || len(b.applied) != 1 || len(b.applied[0].Chains) != 1 {
			t.Errorf("report %+v, applied %+v", r, b.applied)
		}
		f.set(func() { f.err, f.text = nil, doc("8", time.Hour) })
		if r := b.after(5 * time.Second); r.Version != 9 || r.Fault == nil || r.Fault.Why != WhyOlder {
			t.Errorf("an older one after a restart: %+v", r)
		}
		b.stop()

		time.Sleep(time.Hour) // the order has passed: it must not be switched on again
		f = &fake{err: errors.New("down")}
		b = start(t, f, f, path)
		if r := b.after(time.Millisecond); r.Version != 9 || len(b.applied) != 1 || len(b.applied[0].Chains) != 0 {
			t.Errorf("report %+v, applied %+v", r, b.applied)
		}
	})
}

func TestDamagedLastGoodIsIgnoredWithAWarning(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "switch.last")
	if _, ok, err := loadLastGood(path); ok || err != nil {
		t.Errorf("no file: %v, %v", ok, err)
	}
	d := Document{Version: 9, Chains: map[string]Directive{"coupon": order(tierlock.ModeBypass, noon)}}
	if err := saveLastGood(path, d, noon); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := loadLastGood(path); !ok || err != nil || got.Hash() != d.Hash() {
		t.Fatalf("%+v, %v, %v", got, ok, err)
	}
	check := func(what string, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := loadLastGood(path); err == nil && (!ok || got.Hash() != d.Hash()) || ok && got.Hash() != d.Hash() {
			t.Errorf("%s: %+v, %v, %v", what, got, ok, err)
		}
	}
	for i := 0; i < len(whole)-1; i += 5 {
		check("cut off", whole[:i])
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		check("one bit changed", changed)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := os.WriteFile(path, whole[:50], 0o600); err != nil {
			t.Fatal(err)
		}
		f := &fake{text: doc("1", time.Hour)}
		b := start(t, f, f, path)
		if r := b.after(time.Millisecond); r.Version != 1 || r.Fault != nil || !strings.Contains(b.log.String(), "level=WARN") {
			t.Errorf("report %+v, log %s", r, b.log)
		}
	})
}

func TestUnwritableLastGoodDoesNotStopASwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("1", time.Hour)}
		b := start(t, f, f, filepath.Join(t.TempDir(), "no", "such", "folder"))
		if r := b.after(time.Millisecond); r.Version != 1 || !strings.Contains(b.log.String(), "not kept") {
			t.Errorf("report %+v, log %s", r, b.log)
		}
	})
}
