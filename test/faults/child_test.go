package faults

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/pulse"
	"github.com/tierlock/tierlock/switchcfg"
)

const childEnv = "TIERLOCK_FAULTS_CHILD"

// job is what a child is told at its start: a process of its own, with one gateway, that
// does what its test says, a line for a line.
type job struct {
	Addr string
	Shop string // the SQLite file of a resource
}

// order is one line to a child.
type order struct {
	Do    string // lock, renew, held, unlock, enter, reject, files, state
	ID    string
	TTL   time.Duration // reject: for how long
	Keep  bool          // lock: renewed by the watchdog
	Weak  bool
	Files uint64 // files: the soft limit of open files; 0: none can be opened
}

// reply is the child's line.
type reply struct {
	Err     string // a word of outcome, or the guard's; empty: done
	Text    string // of the error
	Tier    string
	Token   uint64
	Expires time.Duration // from now until the holder must stop; below 0: since
	Took    time.Duration
	Held    bool  // held: what the store says
	Ended   bool  // the context of the lock has ended
	Failed  int64 // renewals that failed, and losses, that hooks were told so far
	Wall    time.Time
}

// serve is the child.
func serve(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	beat = pulse.Start()
	defer beat.Stop()
	store, err := redisstore.New(redisstore.Config{Addrs: []string{j.Addr}, PoolSize: 4})
	if err != nil {
		return err
	}
	strong, weak := gateway.Strong("one sale of a sku at a time", gateway.Fence), gateway.Weak("one claim at a time", gateway.Reconcile)
	strong.Audit.Record, weak.Audit.Record = audit.RecordOff, audit.RecordOff
	c := &child{}
	gw, err := gateway.New(gateway.Config{
		Hooks: gateway.Hooks{
			Renewed: func(i gateway.RenewInfo) {
				if i.Err != nil {
					c.failed.Add(1)
				}
			},
			Lost: func(gateway.LostInfo) { c.failed.Add(1) },
		},
		Chains: map[string]gateway.Policy{"order": strong, "coupon": weak}, Stores: map[string]tierlock.Backend{"main": store},
	})
	if err != nil {
		return err
	}
	c.gw = gw
	if c.db, err = sql.Open("sqlite", dsn(j.Shop)); err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(c.obey(o)); err != nil {
			return err
		}
	}
}

type child struct {
	gw   *gateway.Gateway
	db   *sql.DB
	lock *gateway.Lock
	work context.Context

	failed atomic.Int64
}

func (c *child) obey(o order) (r reply) {
	ctx := context.Background()
	began := time.Now()
	var err error
	switch o.Do {
	case "lock":
		name := "order"
		if o.Weak {
			name = "coupon"
		}
		chain, _ := c.gw.Chain(name)
		opts := []gateway.Option{gateway.WithTTL(o.TTL)}
		if !o.Keep {
			opts = append(opts, gateway.WithoutRenew())
		}
		var l *gateway.Lock
		if l, err = chain.TryLock(ctx, o.ID, opts...); err == nil {
			c.lock, c.work = l, l.Context(ctx)
		}
	case "renew":
		err = c.lock.Renew(ctx, o.TTL)
	case "held":
		r.Held, err = c.lock.IsHeld(ctx)
	case "reject":
		err = c.gw.Apply(switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{
			"order": {Mode: tierlock.ModeReject, Until: began.Add(o.TTL).Round(0), Reason: "test", By: "test"},
		}})
	case "unlock":
		err = c.lock.Unlock(ctx)
	case "enter":
		g := c.lock.Grant()
		err = enter(c.db, g.Key, g.Token)
	case "files":
		var limit syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
		limit.Cur = min(o.Files, limit.Max)
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	r.Took = tookSince(began)
	g := c.lock.Grant()
	r.Tier, r.Token, r.Expires = g.Tier.String(), uint64(g.Token), time.Until(g.ExpiresAt)
	r.Wall, r.Failed = time.Now(), c.failed.Load()
	r.Ended = c.work != nil && c.work.Err() != nil
	if err != nil {
		r.Err, r.Text = word(err), err.Error()
	}
	return r
}

// word names an error by what callers branch on.
func word(err error) string {
	for _, known := range []struct {
		err  error
		word string
	}{
		{guard.ErrStale, "stale"}, // which is ErrLost too
		{tierlock.ErrHeld, "held"}, {tierlock.ErrLost, "lost"}, {tierlock.ErrTimeout, "timeout"}, {tierlock.ErrSystem, "system"},
	} {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	return "other"
}

// process is a child as its test sees it.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startChild(t *testing.T, j job) *process {
	t.Helper()
	return startProgram(t, os.Args[0], j)
}

// startProgram is startChild of another build of the tests, with more in its environment.
func startProgram(t *testing.T, program string, j job, env ...string) *process {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(program)}
	p.cmd.Env = append(append(os.Environ(), childEnv+"="+string(text)), env...)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		p.resume()
		p.kill()
	})
	return p
}

// tell has the child do something and returns what came of it.
func (p *process) tell(o order) reply {
	p.t.Helper()
	r, err := p.say(o)
	if err != nil {
		p.t.Fatalf("child, %s: %v", o.Do, err)
	}
	return r
}

func (p *process) say(o order) (r reply, err error) {
	line, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return r, err
	}
	if !p.lines.Scan() {
		return r, fmt.Errorf("it has ended: %w", errors.Join(p.lines.Err(), io.EOF))
	}
	return r, json.Unmarshal([]byte(strings.TrimSpace(p.lines.Text())), &r)
}

func (p *process) halt()   { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
