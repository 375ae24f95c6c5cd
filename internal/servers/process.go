package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// readyIn bounds a start. The slowest server, Kafka, needs 4 s on two idle cores; the rest
// is for machines that are busy with other packages' tests.
const readyIn = 60 * time.Second

// What lies in a server's folder.
const (
	logName  = "server.log" // of its last start
	dataName = "data"
)

// errStillborn is what ready says of a server that has started wrong and will not come
// right by waiting.
var errStillborn = errors.New("started wrong")

// command says how to run one server.
type command struct {
	name  string // "redis": in messages and the folder's name
	path  string
	args  []string
	env   []string // beside the test's own
	user  *syscall.Credential
	death syscall.Signal // how to end it; SIGKILL when zero
	// ready asks once whether the server with this pid answers, and as what version.
	ready func(pid int) (version string, err error)
}

// Process is a running server as a test sees it. Its methods may be called from any
// goroutine, one at a time; Restart only from the test's own, since it may end the test.
type Process struct {
	tb testing.TB
	*child
}

// PID is the server's process id; it changes with Restart.
func (p Process) PID() int { return p.pid() }

// Kill ends the server without a chance to say good-bye, and returns when it is gone.
func (p Process) Kill() { p.kill() }

// Freeze stops the server by SIGSTOP: connections stay open, answers stay out.
func (p Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (p Process) Thaw() { p.signal(syscall.SIGCONT) }

// Restart kills the server if it lives and starts it again on the same port and folder. It
// returns when the server answers.
func (p Process) Restart() {
	p.tb.Helper()
	p.kill()
	if _, err := p.start(nil); err != nil {
		p.tb.Fatalf("restart: %v", err)
	}
}

// launch starts what cmd says in dir and ties its end to the test's.
func launch(tb testing.TB, cmd command, dir *folder, release ...func()) Process {
	tb.Helper()
	c := &child{command: cmd, dir: dir, release: release}
	tb.Cleanup(c.end)
	version, err := c.start(func() error { return os.RemoveAll(filepath.Join(dir.path, dataName)) })
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Logf("%s %s, pid %d", cmd.name, version, c.pid())
	return Process{tb, c}
}

// child is one server: its command and, while it lives, its process.
type child struct {
	command
	dir     *folder
	release []func() // gives back what outlives a restart: reserved ports

	mu   sync.Mutex // guards what follows; never held while waiting
	proc *os.Process
	gone chan struct{} // closed when proc has been waited for
}

// start runs the command and waits until it is ready, once more after each stillbirth and,
// where it may, with the data wiped.
func (c *child) start(wipe func() error) (version string, err error) {
	for range 10 {
		version, err = c.try()
		if !errors.Is(err, errStillborn) {
			break
		}
		c.signal(syscall.SIGKILL)
		c.kill()
		if wipe != nil {
			err = errors.Join(err, wipe())
		}
	}
	return version, err
}

// try is one start.
func (c *child) try() (version string, err error) {
	log, err := os.Create(c.logFile())
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir.path, log, log
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.user}
	dieWithParent(cmd.SysProcAttr, c.deathSignal())

	started, gone := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends the parent's death signal when the *thread* that forked ends, not
		// the process. Go ends a thread whose locked goroutine returns, and t.FailNow makes
		// one return. So the child is forked on a thread that nobody else can end and that
		// waits here for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(gone)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // a killed server's status says nothing new
		}
	}()
	if err := <-started; err != nil {
		return "", fmt.Errorf("%s: %w (make servers installs it)", c.name, err)
	}
	c.mu.Lock()
	c.proc, c.gone = cmd.Process, gone
	c.mu.Unlock()
	return c.await(cmd.Process.Pid, gone)
}

// await asks ready until it says yes, the server ends or time is up.
func (c *child) await(pid int, gone <-chan struct{}) (version string, err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(readyIn)
	defer end.Stop()
	for {
		if version, err = c.ready(pid); err == nil || errors.Is(err, errStillborn) {
			return version, err
		}
		select {
		case <-gone:
			return "", fmt.Errorf("%s ended before it was ready; its log ends with:\n%s", c.name, c.logTail())
		case <-end.C:
			c.kill()
			return "", fmt.Errorf("%s not ready within %v: %w; its log ends with:\n%s", c.name, readyIn, err, c.logTail())
		case <-tick.C:
		}
	}
}

func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == nil {
		return 0
	}
	return c.proc.Pid
}

func (c *child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc != nil {
		_ = c.proc.Signal(s) // os.Process itself refuses once the process has been waited for
	}
}

// kill ends the server and returns when it has been waited for. A frozen one is thawed, so
// that a signal other than SIGKILL reaches it.
func (c *child) kill() {
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone == nil {
		return
	}
	c.signal(c.deathSignal())
	c.signal(syscall.SIGCONT)
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		c.signal(syscall.SIGKILL)
		<-gone
	}
}

// end is the last thing that happens to a server.
func (c *child) end() {
	c.kill()
	c.dir.remove()
	for _, f := range c.release {
		f()
	}
}

func (c *child) deathSignal() syscall.Signal {
	if c.death == 0 {
		return syscall.SIGKILL
	}
	return c.death
}

func (c *child) logFile() string { return filepath.Join(c.dir.path, logName) }

// logTail is what a person needs to see why a server did not start.
func (c *child) logTail() string {
	text, err := os.ReadFile(c.logFile())
	if err != nil || len(text) == 0 {
		return "(empty)"
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// look finds a program on PATH.
func look(tb testing.TB, program string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		tb.Fatalf("%s is not on PATH: make servers installs it", program)
	}
	if err != nil {
		tb.Fatalf("%s: %v", program, err)
	}
	return path
}
