package trace_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = "at,kind,id,who,what\n" +
	"2017-06-17T10:00:00Z,sale,1-1,h1,p1\n" +
	"2017-06-17T12:00:00Z,sale,2-1,h2,p2\n" +
	"2017-06-17T12:00:00Z,claim,r1,h2,c1\n" +
	"2017-06-17T12:10:00Z,sale,3-1,h3,p3\n" +
	"2017-06-17T13:00:00Z,sale,4-1,h4,p4\n"

func reader(t *testing.T, text string) *trace.Reader {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReplaysTheWindowAtItsSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Date(2017, 6, 17, 12, 0, 0, 0, time.UTC)
		began := time.Now()
		var got []string
		n, err := trace.Replay(t.Context(), reader(t, day), trace.Window{From: from, For: time.Hour, Speed: 100}, func(ev trace.Event) {
			got = append(got, ev.ID+"@"+time.Since(began).String())
		})
		if err != nil || n != 3 {
			t.Fatalf("%d events, %v", n, err)
		}
		if s := strings.Join(got, " "); s != "2-1@0s r1@0s 3-1@6s" {
			t.Fatalf("delivered %s", s)
		}
	})
}

func TestWithoutAWindowEverythingIsReplayedFromItsFirstEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n, err := trace.Replay(t.Context(), reader(t, day), trace.Window{}, func(trace.Event) {})
		if took := time.Since(began); err != nil || n != 5 || took != 3*time.Hour {
			t.Fatalf("%d events in %v, %v", n, took, err)
		}
	})
}

func TestReplayEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		n, err := trace.Replay(ctx, reader(t, day), trace.Window{}, func(trace.Event) {})
		if n != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d events, %v", n, err)
		}
	})
}

func TestBadLinesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"too few fields": {"2017-06-17T10:00:00Z,sale,1", "line 2: want 5 fields"},
		"no time":        {"yesterday,sale,1,h,p", "line 2: at:"},
		"unknown kind":   {"2017-06-17T10:00:00Z,gift,1,h,p", `line 2: kind: "gift"`},
		"empty id":       {"2017-06-17T10:00:00Z,sale,,h,p", "line 2: id:"},
		"not for a key":  {"2017-06-17T10:00:00Z,sale,1,h,a b", `line 2: what: "a b"`},
		"time goes back": {"2017-06-17T10:00:00Z,sale,1,h,p\n2017-06-17T09:00:00Z,sale,1,h,p", "line 3: at: is earlier"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader(t, trace.Header+"\n"+c.line+"\n")
			var err error
			for err == nil {
				_, err = r.Next()
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %q does not say %q", err, c.want)
			}
		})
	}
	for name, text := range map[string]string{"empty": "", "another header": "a,b\n"} {
		t.Run(name, func(t *testing.T) {
			if _, err := trace.NewReader(strings.NewReader(text)); err == nil {
				t.Fatal("no error")
			}
		})
	}
}

func TestWindowReportsEveryFault(t *testing.T) {
	err := trace.Window{For: -1, Speed: -1}.Validate()
	if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "for") || !strings.Contains(err.Error(), "speed") {
		t.Fatalf("error %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(day)
	f.Add(trace.Header + "\n,,,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := trace.NewReader(strings.NewReader(text))
		if err != nil {
			return
		}
		var last time.Time
		for {
			ev, err := r.Next()
			if errors.Is(err, io.EOF) || err != nil {
				return
			}
			if ev.At.Before(last) || ev.ID == "" || ev.Who == "" || ev.What == "" {
				t.Fatalf("accepted %+v after %v", ev, last)
			}
			last = ev.At
		}
	})
}
