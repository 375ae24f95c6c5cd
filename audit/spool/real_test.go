//go:build linux

package spool_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierlock/tierlock/audit/spool"
	"github.com/tierlock/tierlock/internal/servers"
)

// These tests run a real process on the real file system and watch, or spoil, its system
// calls. The binary is its own child; taskEnv says what the child does, dirEnv where.
const (
	taskEnv = "TIERLOCK_SPOOL_TASK"
	dirEnv  = "TIERLOCK_SPOOL_DIR"
)

// tasks are what a child can do; each prints what it did.
var tasks = map[string]func(dir string) error{
	"append":  func(dir string) error { return appendAll(spool.OS{}, dir) },
	"no sync": func(dir string) error { return appendAll(lyingOS{}, dir) },
	"limited": limited,
	"full":    fullDisk,
	"large":   appendLarge,
}

func taskMain() bool {
	task, ok := tasks[os.Getenv(taskEnv)]
	if ok {
		if err := task(os.Getenv(dirEnv)); err != nil {
			fmt.Fprintln(os.Stdout, "error", err)
		}
	}
	return ok
}

// appendAll appends from four goroutines and prints each record once it is acknowledged,
// with one write of its own.
func appendAll(fs spool.FS, dir string) error {
	s, err := spool.Open(spool.Config{Dir: dir, FS: fs, Segment: 4 << 10, Reserve: 4 << 10})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 25 {
				rec := fmt.Sprintf("<%d.%d>", g, i)
				if _, err := s.Append(context.Background(), []byte(rec), spool.Ordinary); err == nil {
					fmt.Fprintln(os.Stdout, rec)
				}
			}
		})
	}
	group.Wait()
	return s.Close()
}

// lyingOS is a build without fsync.
type lyingOS struct{ spool.OS }

func (o lyingOS) Create(name string) (spool.File, error) {
	f, err := o.OS.Create(name)
	return noSyncFile{f}, err
}

// child is this binary at a task, under the program that is named first, if any.
func child(t *testing.T, task, dir string, under ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	words := append(under[:len(under):len(under)], os.Args[0])
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), taskEnv+"="+task, dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// traced runs a task under strace and returns what it printed and the trace.
func traced(t *testing.T, task, dir string, flags ...string) (printed []string, trace string) {
	t.Helper()
	servers.Need(t, "strace")
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("%v: make servers installs it", err)
	}
	file := filepath.Join(t.TempDir(), "trace")
	args := append([]string{strace, "-f", "--seccomp-bpf", "-y", "-s", "9999", "-e", "trace=write,pwrite64,fsync", "-o", file}, flags...)
	out, err := child(t, task, dir, args...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out)), string(text)
}

var (
	called  = regexp.MustCompile(`^(\d+) +(\w+)\(\d+<([^>]*)>(.*)$`)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)$`)
	record  = regexp.MustCompile(`<\d+\.\d+>`)
)

// early returns the records that were printed before an fsync that began after their
// write had come back.
func early(trace string) (bad []string, acked int) {
	type file struct{ written, syncing map[string]bool } // records
	files := map[string]*file{}
	of := func(name string) *file {
		if files[name] == nil {
			files[name] = &file{map[string]bool{}, nil}
		}
		return files[name]
	}
	safe := map[string]bool{}
	open := map[string][2]string{} // by thread: file and records of a call that has not come back
	back := func(call, name, recs string) {
		f := of(name)
		switch call {
		case "pwrite64":
			for _, r := range record.FindAllString(recs, -1) {
				f.written[r] = true
			}
		case "fsync":
			for r := range f.syncing {
				safe[r] = true
			}
		}
	}
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		if m := resumed.FindStringSubmatch(line); m != nil {
			if !strings.Contains(m[3], "= -1") {
				back(m[2], open[m[1]][0], open[m[1]][1])
			}
			continue
		}
		m := called.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		call, name, rest := m[2], m[3], m[4]
		switch call {
		case "write":
			for _, r := range record.FindAllString(rest, -1) {
				acked++
				if !safe[r] {
					bad = append(bad, r)
				}
			}
			continue
		case "fsync":
			f := of(name)
			f.syncing = f.written
			f.written = map[string]bool{}
			for r := range f.syncing { // what an earlier one made safe stays so
				f.written[r] = true
			}
		}
		if strings.HasSuffix(rest, "<unfinished ...>") {
			open[m[1]] = [2]string{name, rest}
			continue
		}
		if !strings.Contains(rest, "= -1") {
			back(call, name, rest)
		}
	}
	return bad, acked
}

func TestNothingIsAcknowledgedBeforeItsFsyncHasComeBack(t *testing.T) {
	t.Parallel()
	printed, trace := traced(t, "append", t.TempDir())
	bad, acked := early(trace)
	if len(bad) > 0 || acked != 100 || len(printed) != 100 {
		t.Errorf("%d acknowledged, before their fsync: %v", acked, bad)
	}
}

// The test above would prove nothing if a build without fsync passed it.
func TestABuildWithoutFsyncIsNoticed(t *testing.T) {
	t.Parallel()
	_, trace := traced(t, "no sync", t.TempDir())
	if bad, acked := early(trace); len(bad) != acked || acked == 0 {
		t.Errorf("%d of %d acknowledged without fsync", len(bad), acked)
	}
}

// checkChild finds in the folder every record that the child printed.
func checkChild(t *testing.T, dir string, printed []string) {
	t.Helper()
	s, err := spool.Open(spool.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := map[string]bool{}
	for _, rec := range readAll(t, s, 1) {
		if rec.Lost != 0 {
			t.Errorf("%d to %d damaged", rec.Lost, rec.Seq)
		}
		found[string(rec.Data)] = true
	}
	for _, rec := range printed {
		if record.MatchString(rec) && !found[rec] {
			t.Errorf("%s was acknowledged and is gone", rec)
		}
	}
}

func TestOneFsyncThatFailsInTheKernelIsSurvived(t *testing.T) {
	t.Parallel()
	for _, nth := range []string{"8", "14", "20"} {
		dir := t.TempDir()
		printed, trace := traced(t, "append", dir, "-e", "inject=fsync:error=EIO:when="+nth)
		if !strings.Contains(trace, "(INJECTED)") {
			t.Fatalf("no %sth fsync", nth)
		}
		if bad, _ := early(trace); len(bad) > 0 || len(printed) != 100 {
			t.Errorf("fsync %s fails: %d acknowledged, too early: %v", nth, len(printed), bad)
		}
		checkChild(t, dir, printed)
	}
}

func TestNothingIsAcknowledgedOnceEveryFsyncFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	printed, trace := traced(t, "append", dir, "-e", "inject=fsync:error=EIO:when=12+")
	_, after, ok := strings.Cut(trace, "(INJECTED)")
	if !ok {
		t.Fatal("fewer than 12 calls")
	}
	if late := record.FindAllString(strings.Join(regexp.MustCompile(`(?m)^\d+ +write\(1<.*$`).FindAllString(after, -1), " "), -1); len(late) > 4 {
		t.Errorf("acknowledged afterwards: %v", late) // at most one a goroutine was about to be printed
	}
	if len(printed) >= 100 || len(printed) == 0 {
		t.Errorf("%d acknowledged", len(printed))
	}
	checkChild(t, dir, printed)
}

// limited lets no file grow beyond 16 KiB, and segments try to.
func limited(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16 << 10, Max: 16 << 10}); err != nil {
		return err
	}
	s, err := spool.Open(spool.Config{Dir: dir, Segment: 64 << 10, Reserve: 8 << 10})
	if err != nil {
		return err
	}
	for i := range 100 {
		rec := fmt.Sprintf("<0.%d>", i) + strings.Repeat("x", 500)
		if _, err := s.Append(context.Background(), []byte(rec), spool.Closing); err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, rec)
	}
	return s.Close()
}

func TestFileSizeLimitOfTheProcessLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := child(t, "limited", dir).Output()
	printed := strings.Fields(string(out))
	if err != nil || len(printed) != 100 {
		t.Fatalf("%v, %d records, %.300s", err, len(printed), out)
	}
	checkChild(t, dir, printed)
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(files) < 4 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// fullDisk fills a tmpfs of 2 MiB with grants, of which 64 are open at any time, until
// none is taken any more, and then ends those that are open.
func fullDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		return err
	}
	s, err := spool.Open(spool.Config{Dir: dir, Segment: 256 << 10, Reserve: 128 << 10})
	if err != nil {
		return err
	}
	put := func(word string, n int, room spool.Room) error {
		_, err := s.Append(context.Background(), fmt.Appendf(nil, "%s %d %s", word, n, strings.Repeat("x", 300)), room)
		return err
	}
	granted, ended := 0, 0
	for err == nil {
		if err = put("grant", granted, spool.Ordinary); err == nil {
			granted++
		}
		if granted-ended == 64 {
			if err := put("end", ended, spool.Closing); err != nil {
				return fmt.Errorf("end %d: %w", ended, err)
			}
			ended++
		}
	}
	if !errors.Is(err, spool.ErrFull) {
		return err
	}
	for ; ended < granted; ended++ {
		if err := put("end", ended, spool.Closing); err != nil {
			return fmt.Errorf("end %d: %w", ended, err)
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	return countRecords(dir)
}

// countRecords opens the folder once more and prints how many of each there are.
func countRecords(dir string) error {
	s, err := spool.Open(spool.Config{Dir: dir})
	if err != nil {
		return err
	}
	r := s.Reader(1)
	defer r.Close()
	count := map[string]int{}
	for {
		rec, ok, err := r.TryNext()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		word, _, _ := strings.Cut(string(rec.Data), " ")
		count[word]++
	}
	fmt.Fprintln(os.Stdout, count["grant"], count["end"], count[""])
	return s.Close()
}

func TestFullTmpfsHasRoomForTheEndOfEveryGrant(t *testing.T) {
	t.Parallel()
	servers.Need(t, "mount of a tmpfs")
	cmd := child(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	line, _, err := bufio.NewReader(strings.NewReader(string(out))).ReadLine()
	words := strings.Fields(string(line))
	if err != nil || len(words) != 3 {
		t.Fatalf("the child says %q", out)
	}
	granted, _ := strconv.Atoi(words[0])
	if words[0] != words[1] || granted < 1000 || words[2] != "0" {
		t.Errorf("grants, ends, lost: %q", line)
	}
}
