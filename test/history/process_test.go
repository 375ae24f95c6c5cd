package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a worker in another process, as its test sees it.
type process struct {
	cmd    *exec.Cmd
	stop   io.Closer
	read   sync.WaitGroup
	first  chan struct{} // closed at its first line
	killed bool
	lines  []Op // to be read after end
	bad    error
}

func startWorker(t *testing.T, j job) *process {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), first: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.stop, err = p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.read.Wait()
		_ = p.cmd.Wait()
	})
	p.read.Go(func() { p.collect(out) })
	return p
}

func (p *process) collect(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var op Op
		p.bad = errors.Join(p.bad, json.Unmarshal(lines.Bytes(), &op))
		if len(p.lines) == 0 {
			close(p.first)
		}
		p.lines = append(p.lines, op)
	}
}

func (p *process) awaitFirst(t *testing.T) {
	t.Helper()
	select {
	case <-p.first:
	case <-time.After(30 * time.Second):
		t.Fatal("a worker has not begun")
	}
}

func (p *process) halt()   { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the worker in the middle of what it does.
func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill()
}

// end lets the worker finish, and returns when all that it wrote has been read.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.stop.Close()
	p.read.Wait()
	if err := p.cmd.Wait(); err != nil && !p.killed {
		t.Errorf("worker: %v", err)
	}
	if p.bad != nil && !p.killed {
		t.Errorf("a worker's lines: %v", p.bad)
	}
}
