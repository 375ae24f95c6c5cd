package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/internal/servers"
)

// cli runs the command and returns what it prints.
func cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tierlockCommand(t, args...).Output()
	if err != nil {
		t.Fatalf("tierlock %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestSpoolOfAKilledDaemonIsAdopted: a daemon dies in the middle of granting and does not
// come back. What clients were told is in Kafka all the same, forwarded from its folder.
func TestSpoolOfAKilledDaemonIsAdopted(t *testing.T) { newWorld(t).isAdopted(t) }

func TestSpoolOfAKilledDaemonIsAdoptedToARealKafka(t *testing.T) {
	newWorldWith(t, []string{servers.Kafka(t).Addr()}).isAdopted(t)
}

// isAdopted kills a daemon while it grants and has its folder adopted.
func (w world) isAdopted(t *testing.T) {
	t.Helper()
	cmd, url := w.serveBypass(t)
	dir := filepath.Join(w.dir, "spool")
	if got := cli(t, "spool", "ls", dir); !strings.HasPrefix(got, "in use") {
		t.Errorf("ls of a daemon that runs: %s", got)
	}
	told := w.killWhileGranting(t, cmd, url)

	if got := cli(t, "spool", "ls", w.dir); !strings.HasPrefix(got, "orphan") || !strings.Contains(got, "producer tierlock-1 ") {
		t.Errorf("ls of one that is dead: %s", got)
	}
	// A kill tears at most what nobody was told of.
	cli(t, "spool", "fsck", "--repair", dir)
	acquired := 0
	for line := range strings.Lines(cli(t, "spool", "dump", dir)) {
		var ev struct{ Type, Producer string }
		if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.Producer != "tierlock-1" {
			t.Fatalf("dump: %v, %s", err, line)
		}
		if ev.Type == "acquire" {
			acquired++
		}
	}
	if acquired < len(told) {
		t.Errorf("%d acquires in the dump, %d were told", acquired, len(told))
	}
	cli(t, "spool", "adopt", "-c", w.file, w.dir)
	w.checkRecorded(t, told)
	if got := cli(t, "spool", "ls", dir); !strings.HasPrefix(got, "done") {
		t.Errorf("ls after adoption: %s", got)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	cli(t, "spool", "adopt", "-c", w.file, dir) // nothing is left to do, and nothing is done
	if again, err := os.ReadDir(dir); err != nil || len(again) != len(files) {
		t.Errorf("%d files became %d, %v", len(files), len(again), err)
	}
}
