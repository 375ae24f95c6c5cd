package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// TestMain is also what handover's processes run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerVerb {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

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
	printed(t, &r, "locks", "--rounds", "1", "--slice", "20ms")
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

// Real processes hand one lock to one another: each of them has it once a lap, never two at
// once, and somebody waited for all but the last.
func TestHandoverPrintsEveryRow(t *testing.T) {
	var r struct{ Results []handoverResult }
	printed(t, &r, "handover", "--rounds", "2", "--processes", "2,5", "--for", "1ms", "--work", "1ms", "--only", "tierlock,redsync,redislock")
	if len(r.Results) != 6 {
		t.Fatalf("%d rows, want 6", len(r.Results))
	}
	for _, one := range r.Results {
		if one.Overlaps != 0 || one.Stalls != 0 || one.Turns != 2*one.Processes {
			t.Errorf("%d turns, %d overlaps, %d stalls: %+v", one.Turns, one.Overlaps, one.Stalls, one)
		}
		if one.P50Min > one.P50 || one.P50Max < one.P50 || one.P99Min > one.P99 || one.P99Max < one.P99 || one.PerMin > one.PerTurn || one.PerMax < one.PerTurn {
			t.Errorf("a median outside its spread: %+v", one)
		}
		if one.Handovers == 0 || one.P50 <= 0 || one.Max < one.P99 || one.PerTurn < 2 {
			t.Errorf("nothing handed over, or for less than a command each way: %+v", one)
		}
	}
}

// Held locks are renewed and none is lost.
func TestHoldPrintsItsReport(t *testing.T) {
	var r holdReport
	printed(t, &r, "hold", "--locks", "300", "--ttl", "3s", "--for", "1500ms")
	if r.Locks != 300 || r.Lost != 0 || r.RenewalsPerS <= 0 || r.CommandsPerS <= 0 || r.BytesPerLock <= 0 {
		t.Errorf("%+v", r)
	}
}

// A coarse lock lets one work at a time, a key for each id everybody.
func TestShardsPrintsEveryRow(t *testing.T) {
	var r struct{ Results []shardResult }
	printed(t, &r, "shards", "--rounds", "1", "--for", "100ms", "--callers", "8", "--shards", "4")
	var names []string
	for _, one := range r.Results {
		names = append(names, one.Lock)
		if one.TPS <= 0 || one.P99 <= 0 {
			t.Errorf("%+v", one)
		}
	}
	if got := strings.Join(names, ", "); got != "coarse, 4 shards, one key per id" {
		t.Errorf("rows %s", got)
	}
	if coarse, each := r.Results[0], r.Results[2]; coarse.Conflicts <= each.Conflicts {
		t.Errorf("%v %% met a holder of the coarse lock, %v %% of their own", coarse.Conflicts, each.Conflicts)
	}
}

// Both ways to call the Lua do the same work: each answer is looked at.
func TestFunctionsPrintsBothRows(t *testing.T) {
	var r struct{ Results []functionResult }
	printed(t, &r, "functions", "--rounds", "1", "--for", "20ms")
	if len(r.Results) != 2 || r.Results[0].Calls <= 0 || r.Results[1].Calls <= 0 {
		t.Errorf("%+v", r.Results)
	}
}

// Nobody waits much longer than an attempt for a Redis that hangs; how much is for people to
// judge.
func TestAttemptPrintsEveryRow(t *testing.T) {
	var r struct{ Results []attemptResult }
	printed(t, &r, "attempt", "--rounds", "1")
	if len(r.Results) != 3 {
		t.Fatalf("%d rows, want 3", len(r.Results))
	}
	for _, one := range r.Results {
		if one.Answers != one.Goroutines || one.Outcomes["success"] == one.Answers {
			t.Errorf("%+v", one)
		}
	}
}

// Every row of decide has been measured, and says what its aim is.
func TestDecidePrintsEveryRow(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"decide", "--rounds", "1", "--slice", "2ms", "--output", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	var r struct{ Results []decideResult }
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	seen := map[string]decideResult{}
	for _, one := range r.Results {
		seen[one.What] = one
		if one.NS <= 0 && one.What != overStore || one.Least > one.NS || one.NS > one.Most {
			t.Errorf("%+v", one)
		}
	}
	for what, aim := range map[string]float64{decisionRow: 200, localPair: 300, overStore: 2000} {
		if seen[what].Aim != aim {
			t.Errorf("%s: %+v, want an aim of %v", what, seen[what], aim)
		}
	}
	if seen[decisionRow].Allocs != 0 || len(seen) != len(r.Results) {
		t.Errorf("a decision allocates, or a row stands twice: %+v", r.Results)
	}
}

// Every number of callers gets grants that were on the disk first, and everything that was
// recorded comes to rest in Kafka.
func TestAuditPrintsEveryRow(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"audit", "--output", "json", "--for", "50ms", "--events", "2000", "--dir", t.TempDir()}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	var r auditReport
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 3 || r.Forward <= 0 || r.Drain <= 0 || r.Kafka != "in this process" {
		t.Errorf("%s", &stdout)
	}
	for i, callers := range []int{1, 64, 512} {
		if one := r.Results[i]; one.Callers != callers || one.Grants <= 0 || one.P50 <= 0 || one.P99 < one.P50 || one.Fsyncs == 0 || one.Client <= 0 {
			t.Errorf("%+v", one)
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
		{"locks", "--goroutines", "1,x"},
		{"attempt", "--rounds", "-1"},
		{"handover", "--processes", "1"},
		{"hold", "--ttl", "1s"},
		{"shards", "--shards", "1"},
		{"functions", "--for", "0s"},
		{"decide", "--slice", "1us"},
		{"reconcile", "--events", "999"},
		{"audit", "--callers", "0"},
		{"audit", "--events", "0"},
	} {
		var stdout, stderr bytes.Buffer
		if !slices.Contains([]string{"decide", "reconcile", "audit"}, args[0]) { // which need none
			args = append(args, "--redis", "nowhere.invalid:1")
		}
		code := run(t.Context(), args, &stdout, &stderr)
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

// The job reads all that was made for it and agrees with what really happened.
func TestReconcilePrintsItsReport(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"reconcile", "--events", "40000", "--output", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	var r reconcileReport
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Events < 39_900 || r.Seconds <= 0 || r.PeakRSS <= 0 || r.Groups < 10 || r.Missed != 0 || r.False != 0 {
		t.Errorf("%+v", r)
	}
}

// The oracle that the figures rest on sees a pair too few and a pair too many.
func TestTheOracleSeesWhatIsWrong(t *testing.T) {
	const holds = 5000
	source, found := startSource(2, holds), &verdicts{}
	defer source.stop()
	job, err := reconcile.New(reconcile.Config{Source: source, Findings: []reconcile.Findings{found}})
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	truth := truthOf(2, holds)
	if missed, wrong := found.judge(truth); missed != 0 || wrong != 0 {
		t.Fatalf("%d missed, %d wrong", missed, wrong)
	}
	var sum int
	for g, certain := range found.certain {
		sum += certain
		found.certain[g] = 0
	}
	missed, _ := found.judge(truth)
	if missed == 0 || missed > sum {
		t.Errorf("%d missed of %d certain pairs that are not told", missed, sum)
	}
	found.certain[0] = 1 << 30
	if _, wrong := found.judge(truth); wrong == 0 {
		t.Error("pairs that are not there are not seen")
	}
	all := len(found.groupOf)
	clear(found.groupOf)
	if missed, _ := found.judge(truth); missed == 0 {
		t.Errorf("none of the %d holds of findings is missed", all)
	}
}
