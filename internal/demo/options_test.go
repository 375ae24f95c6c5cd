//go:build !nodemo

package demo

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryBadFlagIsReportedAtOnce(t *testing.T) {
	var stderr bytes.Buffer
	_, err := parse([]string{
		"--redis", "nowhere", "--kafka", ":9092", "--nacos", "h:99999", "--dsn", "postgres://u:secret@h:port/db", "--trace", "absent.csv",
		"--from", "yesterday", "--speed", "0", "--for", "-1h", "--output", "xml", "extra",
	}, &stderr)
	if !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	for _, field := range []string{"redis", "kafka", "nacos", "dsn", "trace", "from", "speed", "for", "output", "argument"} {
		if !strings.Contains(err.Error(), "invalid "+field) {
			t.Errorf("%s is not reported in:\n%v", field, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the password of the DSN is shown")
	}
}

func TestAWrongFlagIsToldByItsRule(t *testing.T) {
	for arg, want := range map[string]string{
		"--speed=fast": "tierlock demo: invalid value \"fast\" for flag -speed: want a number, as 2 or 0.5\n`tierlock demo -h` tells the flags\n",
		"--for=12":     "tierlock demo: invalid value \"12\" for flag -for: want a duration with its unit, as 300ms or 5s\n`tierlock demo -h` tells the flags\n",
		"--nosuch":     "tierlock demo: flag provided but not defined: -nosuch\n`tierlock demo -h` tells the flags\n",
		"--redis=a:1x": "tierlock: invalid redis \"a:1x\": want host:port, the port a whole number from 1 to 65535\n",
	} {
		var stdout, stderr bytes.Buffer
		if code := Run(t.Context(), []string{arg}, &stdout, &stderr); code != 2 || stdout.Len() > 0 || stderr.String() != want {
			t.Errorf("%s: code %d\n%s%s\nwant %s", arg, code, &stdout, &stderr, want)
		}
	}
	var stdout, stderr bytes.Buffer
	if Run(t.Context(), []string{"-h"}, &stdout, &stderr); !strings.Contains(stderr.String(), "usage: tierlock demo") || !strings.Contains(stderr.String(), "-speed float") {
		t.Errorf("help: %s", &stderr)
	}
}

func TestReplayFlagsNeedATrace(t *testing.T) {
	_, err := parse([]string{"--for", "12h"}, &bytes.Buffer{})
	if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "--trace") {
		t.Fatalf("error %v", err)
	}
}

func TestFlagsOfAReplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(file, []byte("at,kind,id,who,what\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"2017-06-17T12:00:00Z", "2017-06-17T12:00:00", "2017-06-17 12:00:00"} {
		o, err := parse([]string{"--trace", file, "--from", from, "--for", "12h", "--speed", "1000", "--output", "json"}, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		want := time.Date(2017, 6, 17, 12, 0, 0, 0, time.UTC)
		if !o.window.From.Equal(want) || o.window.For != 12*time.Hour || o.window.Speed != 1000 || !o.json {
			t.Fatalf("parsed %+v", o)
		}
	}
}

func TestBadFlagsEndWithCode2(t *testing.T) {
	var stdout, stderr bytes.Buffer
	for _, args := range [][]string{{"--nonsense"}, {"--redis", "nonsense"}} {
		stderr.Reset()
		if code := Run(t.Context(), args, &stdout, &stderr); code != 2 {
			t.Errorf("%v: exit code %d, want 2", args, code)
		}
		if n := strings.Count(stderr.String(), "nonsense"); n != 1 {
			t.Errorf("%v: told %d times:\n%s", args, n, &stderr)
		}
	}
	if code := Run(t.Context(), []string{"-h"}, &stdout, &stderr); code != 0 {
		t.Errorf("help: exit code %d, want 0", code)
	}
	if stdout.Len() > 0 {
		t.Errorf("stdout holds %q", stdout.String())
	}
}
