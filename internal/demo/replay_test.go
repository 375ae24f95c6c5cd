//go:build !nodemo

package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/trace"
)

func TestAReplayKnowsItsLength(t *testing.T) {
	noon := time.Date(2017, 6, 17, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		window trace.Window
		want   time.Duration
		err    string
	}{
		"all of it":       {trace.Window{Speed: 1000}, 18 * time.Second, ""},
		"from noon":       {trace.Window{From: noon, Speed: 100}, 36 * time.Second, ""},
		"five minutes":    {trace.Window{From: noon, For: 5 * time.Minute, Speed: 10}, 30 * time.Second, ""},
		"after its end":   {trace.Window{From: noon.AddDate(1, 0, 0), Speed: 1}, 0, "ends at 2017-06-17T13:00:00Z"},
		"beyond its end":  {trace.Window{From: noon, For: 48 * time.Hour, Speed: 100}, 36 * time.Second, ""},
		"before it began": {trace.Window{From: noon.Add(-12 * time.Hour), Speed: 1000}, 46800 * time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := openReplay("testdata/trace.csv", c.window, nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			if r.length != c.want {
				t.Fatalf("length %v, want %v", r.length, c.want)
			}
		})
	}
}

func TestAFileThatIsNoTraceIsRefused(t *testing.T) {
	for _, path := range []string{"absent.csv", "replay.go"} {
		if r, err := openReplay(path, trace.Window{Speed: 1}, nil); err == nil {
			_ = r.close()
			t.Errorf("%s was opened", path)
		}
	}
}

func TestAReplayTellsHowLateItWas(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration
		want string
	}{
		"in time":      {10 * time.Second, "in 10s"},
		"a little off": {10*time.Second + 400*time.Millisecond, "in 10s"},
		"late":         {95 * time.Second, "in 1m35s: 1m25s longer than --speed asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			r := replay{length: 10 * time.Second, count: 150, again: 3, took: c.took}
			got := r.summary()
			if !strings.Contains(got, "150 sales and claims, 3 of them twice") || !strings.Contains(got, c.want) ||
				strings.Contains(got, "longer") != strings.Contains(c.want, "longer") {
				t.Fatalf("%q, want %q in it", got, c.want)
			}
		})
	}
}
