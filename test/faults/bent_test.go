package faults

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/way"
)

// bent builds these tests once more, with a package time whose wall clock a shim bends: Go
// reads the clock past the C library, so nothing can be preloaded. The monotonic clock of
// such a program is the machine's.
func bent(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		t.Fatalf("%s has another time.Now than this test knows", std)
	}
	ours := filepath.Join(dir, "time.go")
	changed := strings.Replace(string(text), now, strings.Replace(now, "runtimeNow", "bentNow", 1), 1)
	if err := os.WriteFile(ours, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Abs("testdata/bent.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(std, "time.go"): ours,
		filepath.Join(std, "bent.go"): more,
	}})
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "bent.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "test", "-c", "-overlay", list, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return program
}

// stepped is a process whose wall clock its test steps.
type stepped struct {
	*process
	clock *shim
	step  time.Duration
}

func (f *family) stepped(program, addr string, step time.Duration) *stepped {
	f.Helper()
	clock := newShim(f.T)
	return &stepped{startProgram(f.T, program, job{addr, filepath.Clean(f.shop)}, shimEnv+"="+clock.Page()), clock, step}
}

// jump steps the clock and checks that the process sees it.
func (p *stepped) jump() {
	p.t.Helper()
	p.clock.tell(p.step, 0)
	if off := time.Until(p.tell(order{Do: "state"}).Wall) - p.step; off.Abs() > time.Minute {
		p.t.Fatalf("its clock is %v off what it was stepped by", off)
	}
}

// must has it do something that cannot fail.
func (p *stepped) must(o order) reply {
	p.t.Helper()
	r := p.tell(o)
	if r.Err != "" {
		p.t.Fatalf("%s: %s", o.Do, r.Text)
	}
	return r
}

// The wall clock of a holder steps by an hour and its monotonic clock goes on, as when
// somebody sets the date. No time that a lock, a local lock or an order has left changes.
func wallClockSteps(t *testing.T) {
	program := bent(t)
	for name, step := range map[string]time.Duration{"1 h ahead": time.Hour, "1 h back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("shared", func(t *testing.T) {
				t.Parallel()
				sharedUnderAStep(t, program, step)
			})
			t.Run("local", func(t *testing.T) {
				t.Parallel()
				localUnderAStep(t, program, step)
			})
			t.Run("order", func(t *testing.T) {
				t.Parallel()
				orderUnderAStep(t, program, step)
			})
		})
	}
}

func sharedUnderAStep(t *testing.T, program string, step time.Duration) {
	const ttl = 3 * time.Second
	f := newFamily(t)
	p := f.stepped(program, f.way.Addr(), step)

	// A lock that is kept outlives its ttl, and never has more than its ttl.
	p.must(order{Do: "lock", ID: "a", TTL: ttl, Keep: true})
	p.jump()
	for end := time.Now().Add(ttl + ttl/2); time.Now().Before(end); wait(100 * time.Millisecond) {
		r := p.must(order{Do: "held"})
		left := f.boss.PTTL(t.Context(), "biz:order:lock:a").Val()
		if !r.Held || r.Ended || r.Expires <= 0 || r.Expires > ttl || left <= 0 || left > ttl {
			t.Fatalf("held %t, ended %t, %v in hand, %v in the store", r.Held, r.Ended, r.Expires, left)
		}
		if r.Expires > left+100*time.Millisecond { // told a moment earlier
			t.Fatalf("%v in hand with %v in the store", r.Expires, left)
		}
	}
	if r := p.must(order{Do: "renew", TTL: 2 * ttl}); r.Expires <= ttl || r.Expires > 2*ttl {
		t.Errorf("renewed by hand: %v in hand", r.Expires)
	}
	f.is(ask(f.orders, "a"), tierlock.ErrHeld)
	p.must(order{Do: "unlock"})

	// One that nobody keeps ends before its ttl is over, and not at the step.
	p.clock.tell(0, 0)
	began := time.Now()
	p.must(order{Do: "lock", ID: "b", TTL: ttl})
	p.jump()
	if r := p.tell(order{Do: "state"}); r.Ended || r.Expires > ttl {
		t.Errorf("after the step: ended %t, %v in hand", r.Ended, r.Expires)
	}
	f.eventually(2*ttl, "its context ends", func() bool { return p.tell(order{Do: "state"}).Ended })
	if took := time.Since(began); took < ttl-ttl/10 {
		t.Errorf("its context ended after %v of %v", took, ttl)
	}
	f.eventually(ttl, "the key is free", func() bool {
		a := ask(f.orders, "b")
		defer func() { _ = a.lock.Unlock(t.Context()) }()
		return a.err == nil
	})

	// The server still refuses what comes after its caller has gone.
	f.way.Become(way.HoldBack)
	if r := p.tell(order{Do: "lock", ID: "late", TTL: ttl}); r.Err != "timeout" {
		t.Errorf("asked over a way that holds back: %q %s", r.Err, r.Text)
	}
	wait(300 * time.Millisecond)
	f.way.Become(way.None)
	f.serves()
	f.nothingIsLeft()
}

// localUnderAStep looks at the hard end of local locks, and at the permits that come back
// with it.
func localUnderAStep(t *testing.T, program string, step time.Duration) {
	const hard, permits = 10 * time.Second, 3 // by default
	f := newFamily(t)
	f.server.Kill()
	p := f.stepped(program, f.server.Addr(), step)
	claim := order{Do: "lock", ID: "a", TTL: time.Minute, Weak: true}
	var began time.Time
	f.eventually(5*time.Second, "a local lock", func() bool {
		began = time.Now()
		return p.tell(claim).Tier == "local"
	})
	for range permits - 1 {
		p.must(claim)
	}
	if r := p.tell(claim); r.Err != "held" {
		t.Fatalf("one more than there are permits: %q %s", r.Err, r.Text)
	}
	p.jump()
	if r := p.must(order{Do: "held"}); !r.Held || r.Ended || r.Expires <= 0 || r.Expires > hard {
		t.Fatalf("after the step: held %t, ended %t, %v left", r.Held, r.Ended, r.Expires)
	}
	f.eventually(2*hard, "a permit comes back", func() bool {
		if p.tell(claim).Err != "held" {
			return true
		}
		wait(50 * time.Millisecond)
		return false
	})
	if took := time.Since(began); took < hard {
		t.Errorf("a permit for %v came back after %v", hard, took)
	}
}

// orderUnderAStep looks at until: what was an hour of the day becomes a span on receipt.
func orderUnderAStep(t *testing.T, program string, step time.Duration) {
	const span = 4 * time.Second
	f := newFamily(t)
	p := f.stepped(program, f.way.Addr(), step)
	began := time.Now()
	p.must(order{Do: "reject", TTL: span})
	p.jump()
	rejected := func() bool { return p.tell(order{Do: "lock", ID: "a", TTL: time.Minute}).Err == "system" }
	if r := rejected(); !r && time.Since(began) < span {
		t.Error("the order was over with the step")
	}
	f.eventually(3*span, "the order is over", func() bool { return !rejected() })
	if took := time.Since(began); took < span {
		t.Errorf("an order for %v was over after %v", span, took)
	}
	p.must(order{Do: "unlock"})
	f.nothingIsLeft()
}
