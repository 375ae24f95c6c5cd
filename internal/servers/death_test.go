package servers_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
)

// TestNothingOutlivesTheTestProcess ends a second test process in ways that run none of
// its clean-up.
func TestNothingOutlivesTheTestProcess(t *testing.T) {
	servers.Need(t, "redis-server")
	for how, end := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "panicked": syscall.SIGUSR1} {
		for _, what := range slices.Sorted(maps.Keys(victims)) {
			t.Run(what+" "+how, func(t *testing.T) {
				tmp := t.TempDir()
				victim, pid := startVictim(t, what, tmp)
				if !runs(pid) {
					t.Fatalf("the victim's server, pid %d, does not run", pid)
				}
				_ = victim.Process.Signal(end)
				_ = victim.Wait()
				eventually(t, "the server is gone", func() bool { return !runs(pid) })
				eventually(t, "its folder is gone", func() bool { return len(left(t, tmp)) == 0 })
				eventually(t, "its shared memory is gone", func() bool { return !sharesMemory(t, pid) })
			})
		}
	}
}

// victims start a server in the second process and return its pid.
var victims = map[string]func(t *testing.T) int{
	"nacos":    func(t *testing.T) int { return servers.Nacos(t).PID() },
	"postgres": func(t *testing.T) int { return servers.Postgres(t).PID() },
	"redis": func(t *testing.T) int {
		r := servers.Redis(t)
		r.Freeze() // no signal but SIGKILL can reach it
		return r.PID()
	},
}

// TestVictim is the second process of the test above.
func TestVictim(t *testing.T) {
	start := victims[os.Getenv("TIERLOCK_VICTIM")]
	if start == nil {
		return
	}
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1) // before the line that makes the signal come
	fmt.Printf("victim runs %d\n", start(t))
	<-usr1
	go panic("not in the test's goroutine: no clean-up runs")
	select {}
}

// startVictim runs TestVictim in a process of its own, whose temporary folder is tmp.
func startVictim(t *testing.T, what, tmp string) (victim *exec.Cmd, pid int) {
	t.Helper()
	for dir := tmp; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755) // PostgreSQL's user has to get in
	}
	victim = exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.v")
	victim.Env = append(os.Environ(), "TIERLOCK_VICTIM="+what, "TMPDIR="+tmp)
	out, err := victim.StdoutPipe()
	if err == nil {
		err = victim.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(out); pid == 0 && in.Scan(); {
		_, _ = fmt.Sscanf(in.Text(), "victim runs %d", &pid)
	}
	if pid == 0 {
		_ = victim.Process.Kill()
		t.Fatal("the victim has not started its server")
	}
	return victim, pid
}

// sharesMemory says whether a System V segment that pid has made is still there.
func sharesMemory(t *testing.T, pid int) bool {
	t.Helper()
	segments, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(segments)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == strconv.Itoa(pid) {
			return true
		}
	}
	return false
}

// TestServerOutlivesTheThreadThatAskedForIt: the kernel ends a child with the thread that
// forked it, and a locked goroutine that returns takes its thread along.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	servers.Need(t, "redis-server")
	asked, tid := make(chan *servers.RedisServer), make(chan int)
	var ask func()
	ask = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if syscall.Gettid() == os.Getpid() {
			done := make(chan struct{})
			go func() { defer close(done); ask() }() // the main thread never ends; while it waits here, another runs this
			<-done
			return
		}
		tid <- syscall.Gettid()
		asked <- servers.Redis(t)
	}
	go ask()
	thread := <-tid
	r := <-asked
	eventually(t, "the thread is gone", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		return os.IsNotExist(err)
	})
	if got := ping(t, r.Addr(), 5*time.Second); got != "+PONG\r\n" {
		t.Fatalf("ping: %q", got)
	}
}

func TestNothingIsLeftAfterTheTest(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Setenv("TMPDIR", t.TempDir())
	pid := 0
	t.Run("test", func(t *testing.T) { pid = servers.Redis(t).PID() })
	if runs(pid) {
		t.Errorf("server %d still runs", pid)
	}
	if names := left(t, os.Getenv("TMPDIR")); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// runs says whether pid is a process that is not yet dead; a zombie is.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func left(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "tierlock-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
