package kafkasource

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// memberEnv makes TestMemberThatIsKilled a member of the group, by the broker it names.
const memberEnv = "TIERLOCK_MEMBER_CHILD"

// A job is killed by SIGKILL again and again, before, between and after what it stores and
// commits: in the end its topic has what one that is left alone finds, byte for byte.
func TestFindingsDoNotDependOnKillsOnKafka(t *testing.T) { killed(t, 6_000) }

func TestSoakFindingsDoNotDependOnKillsOnKafka(t *testing.T) {
	needSoak(t)
	killed(t, 80_000)
}

func killed(t *testing.T, holds int) {
	brokers := []string{servers.Kafka(t).Addr()}
	createTopics(t, brokers, 6)
	topic := newFindings(t, brokers[0], FindingsTopic)
	if err := topic.Create(t.Context(), 3, 1); err != nil {
		t.Fatal(err)
	}
	producers := []string{"p0", "p1", "p2", "p3"}
	f := newFeeder(t, brokers, 6, producers...)
	kills := 0
	f.pace = func(at time.Time) { // after each part of the stream, so that groups are open when a life ends
		kills++
		c := start(t, brokers[0])
		defer c.kill()
		for steps := int64(1 + rand.IntN(24)); c.steps.Load() < steps; {
			f.beat(at, "bypass") // so that there is something to commit
			f.flush(t.Context())
			pause(50 * time.Millisecond)
		}
	}
	clashes := f.stream(t.Context(), holds, producers)

	stored := func() *memory {
		m := &memory{by: map[string]reconcile.Finding{}}
		for _, r := range readTopic(t, brokers[0], FindingsTopic) {
			var told reconcile.Finding
			if err := json.Unmarshal(r.Value, &told); err != nil {
				t.Fatal(err)
			}
			if err := m.Put(t.Context(), told); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	before := stored().overlapsIn("")
	last := start(t, brokers[0])
	found := stored()
	for end := time.Now().Add(time.Minute); found.overlapsIn("") < clashes; found = stored() {
		f.beat(time.Now(), "shared")
		f.flush(t.Context())
		if time.Now().After(end) {
			t.Fatalf("%d of %d clashes after %d kills", found.overlapsIn(""), clashes, kills)
		}
		pause(200 * time.Millisecond)
	}
	last.kill()
	if before == 0 || before == clashes || kills < 2 {
		t.Errorf("%d kills, after which %d of %d clashes were told: none was in the middle of the work", kills, before, clashes)
	}

	alone := &memory{by: map[string]reconcile.Finding{}}
	_, leave := enter(t, brokers, "alone", alone, nil)
	await(t, "what one alone finds", func() bool { return alone.overlapsIn("") >= clashes })
	leave()
	want, n := alone.fingerprint(t)
	got, m := found.fingerprint(t)
	if got != want || n != clashes || m != clashes {
		t.Errorf("%d clashes; one that was killed %d times found %d, one alone %d; the same: %v", clashes, kills+1, m, n, got == want)
	}
	t.Logf("%d holds, %d clashes, %d told over %d kills", holds, clashes, before, kills)
}

// child is a member in a process of its own.
type child struct {
	cmd   *exec.Cmd
	steps atomic.Int64 // it has begun or made
	read  chan struct{}
	over  bool
}

func start(t *testing.T, broker string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemberThatIsKilled$")
	cmd.Env, cmd.Stderr = append(os.Environ(), memberEnv+"="+broker), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, read: make(chan struct{})}
	go func() {
		defer close(c.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.steps.Add(1)
		}
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *child) kill() {
	if c.over {
		return
	}
	c.over = true
	_ = c.cmd.Process.Kill()
	<-c.read
	_ = c.cmd.Wait() // killed, as it says
}

// telling says each of its steps before and after it is made.
type telling struct {
	*Source
	findings *Findings
}

func (s *telling) Commit(ctx context.Context, m reconcile.Mark) error {
	fmt.Fprintln(os.Stdout, "commit")
	err := s.Source.Commit(ctx, m)
	fmt.Fprintln(os.Stdout, "committed", err)
	return err
}

func (s *telling) Put(ctx context.Context, f reconcile.Finding) error {
	fmt.Fprintln(os.Stdout, "put", f.ID)
	err := s.findings.Put(ctx, f)
	fmt.Fprintln(os.Stdout, "stored", err)
	return err
}

// TestMemberThatIsKilled is the process that is killed; by itself it is nothing.
func TestMemberThatIsKilled(t *testing.T) {
	broker, wanted := os.LookupEnv(memberEnv)
	if !wanted {
		return
	}
	s, err := New(Config{Brokers: []string{broker}, MaxWait: 50 * time.Millisecond, Session: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	both := &telling{Source: s, findings: newFindings(t, broker, FindingsTopic)}
	job, err := reconcile.New(reconcile.Config{Source: both, Findings: []reconcile.Findings{both}, Tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
