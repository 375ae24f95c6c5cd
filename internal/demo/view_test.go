//go:build !nodemo

package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

var moment = board{
	at: 12300 * time.Millisecond, phase: "down",
	chains: []chainBoard{{
		name: "coupon", rate: 612, requests: 4000, conflicts: 7,
		places: []place{{"shop-1", "local", "the store is down"}, {"shop-2", "shared", "the store is well"}},
	}},
	order: "switch  coupon bypass for 5 s more: Redis under DDoS",
}

func TestAPipeGetsPlainLines(t *testing.T) {
	var b bytes.Buffer
	v := newView(&b)
	v.phase(12*time.Second, "down", "the connection is cut")
	v.flip(Flip{At: 12.1, Instance: "shop-1", Chain: "coupon", From: "shared", To: "local", Reason: "the store is down"})
	v.show(moment)
	v.end()
	got := b.String()
	if strings.Contains(got, "\x1b") {
		t.Errorf("escape codes in a pipe:\n%q", got)
	}
	for _, want := range []string{
		" 12.0s  DOWN  the connection is cut\n",
		" 12.1s  shop-1 coupon shared → local  (the store is down)\n",
		" 12.3s  down       coupon local/shared  612/s 7 conflicts  switch  coupon bypass for 5 s more: Redis under DDoS\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if v.every() != time.Second {
		t.Errorf("a line every %v", v.every())
	}
}

func TestATerminalIsDrawnOver(t *testing.T) {
	var b bytes.Buffer
	v := &view{w: &b, live: true, colour: true}
	v.show(moment)
	v.show(moment)
	v.say("flip")
	got := b.String()
	if n := strings.Count(got, "\x1b[5A\x1b[J"); n != 2 {
		t.Errorf("the block of 5 lines was wiped %d times, want 2:\n%q", n, got)
	}
	if !strings.HasSuffix(got, "\x1b[Jflip\n") {
		t.Errorf("what stays is not written where the block was:\n%q", got)
	}
	if !strings.Contains(got, "\x1b[33mlocal     \x1b[0m") {
		t.Errorf("local is not yellow:\n%q", got)
	}
}

func TestWithoutColourNothingIsPainted(t *testing.T) {
	var b bytes.Buffer
	v := &view{w: &b, live: true}
	v.show(moment)
	if strings.Contains(b.String(), "\x1b[3") {
		t.Errorf("colours:\n%q", b.String())
	}
}

func TestRateIsOverTheLastSecond(t *testing.T) {
	var r rate
	r.of(0, 0)
	r.of(500*time.Millisecond, 500)
	r.of(time.Second, 1000)
	if got := r.of(2*time.Second, 1100); got != 100 {
		t.Errorf("rate %v, want 100", got)
	}
}
