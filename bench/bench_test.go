package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// printed runs a verb on a real Redis and reads the JSON it prints into v.
func printed(t *testing.T, v any, args ...string) {
	t.Helper()
	server := servers.Redis(t)
	var stdout, stderr bytes.Buffer
	args = append(args, "--redis", server.Addr(), "--output", "json")
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatal(err)
	}
	if dec.More() {
		t.Error("more than one JSON value was printed")
	}
}

// Whoever reads the JSON finds every contender at every number of goroutines, each having
// locked, and the ratios that the design has goals for.
func TestLocksPrintsEveryRow(t *testing.T) {
	var r lockReport
	printed(t, &r, "locks", "--rounds", "1", "--slice", "10ms")
	if r.Redis == "" || r.Rounds != 1 {
		t.Errorf("redis %q, rounds %d", r.Redis, r.Rounds)
	}
	type row struct {
		impl  string
		fence bool
		n     int
	}
	seen := map[row]lockResult{}
	for _, one := range r.Results {
		seen[row{one.Impl, one.Fence, one.Goroutines}] = one
	}
	for _, c := range contenders() {
		for _, n := range []int{1, 64, 512} {
			got, ok := seen[row{c.name, c.fence, n}]
			if !ok || got.Pairs <= 0 || got.P50 <= 0 || got.P99 < got.P50 || got.Allocs <= 0 {
				t.Errorf("%s, fence %v, at %d goroutines: %+v", c.name, c.fence, n, got)
			}
		}
		if r.Setup[c.name] == "" {
			t.Errorf("%s: how it is set up is missing", c.name)
		}
	}
	if want := 3 * len(contenders()); len(r.Results) != want || len(seen) != want {
		t.Errorf("%d rows, %d of them different, want %d", len(r.Results), len(seen), want)
	}
	for _, name := range []string{"best_peer_512_plain", "best_peer_512_fenced", "bare_1"} {
		if r.Ratios[name] <= 0 {
			t.Errorf("ratio %s is %v", name, r.Ratios[name])
		}
	}
}

// What cannot be measured is refused before anything starts, by the name of its flag.
func TestBadFlagsAreNamed(t *testing.T) {
	for _, args := range [][]string{
		{"locks", "--rounds", "0"},
		{"locks", "--slice", "1us"},
		{"locks", "--only", "nobody"},
		{"locks", "--output", "xml"},
		{"attempt", "--rounds", "-1"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append(args, "--redis", "nowhere.invalid:1"), &stdout, &stderr)
		field := strings.TrimPrefix(args[1], "--")
		if code != 2 || !strings.Contains(stderr.String(), "invalid "+field) {
			t.Errorf("%v: exit code %d, %q", args, code, &stderr)
		}
	}
}

// The times that rows are made of are read off a histogram: no step is farther from what
// was counted than a thirty-second of it, and a share is found at its place.
func TestHistogramKeepsTimes(t *testing.T) {
	for ns := uint64(1); ns < 1<<40; ns += ns/7 + 1 {
		got := middle(step(ns))
		if off := max(got, ns) - min(got, ns); off > ns/32 {
			t.Fatalf("%d ns is counted as %d", ns, got)
		}
	}
	var h histogram
	for us := range 1000 {
		h.count(time.Duration(us) * time.Microsecond)
	}
	for _, q := range []float64{.5, .99} {
		if got := h.at(q); got < 970*q || got > 1030*q {
			t.Errorf("share %v of 0 to 999 µs at %v", q, got)
		}
	}
}
