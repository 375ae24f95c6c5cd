package servers_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
)

// TestNothingOutlivesTheTestProcess ends a second test process in ways that run none of
// its clean-up, with its server frozen so that no signal but SIGKILL can reach it.
func TestNothingOutlivesTheTestProcess(t *testing.T) {
	servers.Need(t, "redis-server")
	for how, end := range map[string]func(*exec.Cmd){
		"killed":   func(cmd *exec.Cmd) { _ = cmd.Process.Kill() },
		"panicked": func(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGUSR1) },
	} {
		t.Run(how, func(t *testing.T) {
			tmp := t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.v")
			cmd.Env = append(os.Environ(), "TIERLOCK_VICTIM=1", "TMPDIR="+tmp)
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			pid := 0
			for in := bufio.NewScanner(out); pid == 0 && in.Scan(); {
				_, _ = fmt.Sscanf(in.Text(), "victim runs %d", &pid)
			}
			if pid == 0 || !runs(pid) {
				t.Fatalf("the victim's server, pid %d, does not run", pid)
			}
			end(cmd)
			_ = cmd.Wait()
			eventually(t, "the server is gone", func() bool { return !runs(pid) })
			eventually(t, "its folder is gone", func() bool { return len(left(t, tmp)) == 0 })
		})
	}
}

// TestVictim is the second process of the test above.
func TestVictim(t *testing.T) {
	if os.Getenv("TIERLOCK_VICTIM") == "" {
		return
	}
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1) // before the line that makes the signal come
	r := servers.Redis(t)
	r.Freeze()
	fmt.Printf("victim runs %d\n", r.PID())
	<-usr1
	go panic("not in the test's goroutine: no clean-up runs")
	select {}
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
