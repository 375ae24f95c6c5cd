package breaker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierlock/tierlock/breaker"
)

// asStalled is set for the process that TestTimeOfOursIsNotTheStoresSilence suspends.
const asStalled = "TIERLOCK_TEST_STALLED"

// A process that is suspended while a probe is out, or has no processor, has not heard its
// store be silent.
func TestTimeOfOursIsNotTheStoresSilence(t *testing.T) {
	if os.Getenv(asStalled) != "" {
		beStalled()
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), asStalled+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	for range 4 {
		<-time.After(300 * time.Millisecond)
		_ = child.Process.Signal(syscall.SIGSTOP)
		<-time.After(1300 * time.Millisecond)
		_ = child.Process.Signal(syscall.SIGCONT)
	}
	_ = child.Process.Signal(syscall.SIGTERM)
	var word string
	if _, err := fmt.Fscan(out, &word); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if longest, err = time.ParseDuration(strings.TrimSpace(word)); err != nil {
		t.Fatal(err)
	}
	t.Logf("unanswered for %v at most", longest)
	if longest >= time.Second {
		t.Errorf("a store that answers in 0.3 s is silent for %v", longest)
	}
}

// beStalled probes a store that answers in 300 ms, and tells how silent that was at most.
func beStalled() {
	s, err := breaker.New(breaker.Config{ProbeEvery: time.Millisecond, Probe: func(context.Context) error {
		<-time.After(300 * time.Millisecond)
		return nil
	}})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGTERM)
	var most time.Duration
	for {
		s.Worry()
		most = max(most, s.Read(time.Now()).Unanswered)
		select {
		case <-over:
			stop()
			<-ended
			s.Close()
			_, _ = fmt.Fprintln(os.Stdout, most)
			os.Exit(0)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
