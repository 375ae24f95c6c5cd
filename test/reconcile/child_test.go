package reconcile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
)

// childEnv makes the test binary a process that takes locks until its input ends, and
// prints each hold. Its value is name|redis|kafka|folder.
const childEnv = "TIERLOCK_RECONCILE_CHILD"

const customers = 30 // keys of each chain

func serve(text string) error {
	part := strings.Split(text, "|")
	c := child{name: part[0], redis: part[1], kafka: part[2], dir: part[3]}
	if strings.HasPrefix(c.name, shop) {
		return serveShop(c)
	}
	return serveCoupons(c)
}

// child is what a process is given.
type child struct{ name, redis, kafka, dir string }

// trade is what it does with that.
type trade struct {
	store  redisstore.Config // without addresses
	chains map[string]gateway.Policy
	hooks  gateway.Hooks
	// hold takes one key of a chain and gives it back, over and over, in so many workers of
	// each chain.
	hold    func(*gateway.Chain) (held, bool)
	workers int
	// beside is done beside them, until its ctx ends; nil: nothing.
	beside func(context.Context, *gateway.Gateway)
}

// ply does a trade until our parent has had enough, or is gone, and prints every hold.
func (c child) ply(t trade) (err error) {
	sink, err := kafkasink.New(kafkasink.Config{Brokers: []string{c.kafka}, Partitions: 4})
	if err != nil {
		return err
	}
	defer sink.Close()
	log, err := audit.Open(audit.Config{Dir: c.dir, Producer: c.name, Sink: sink, Heartbeat: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close(context.Background())) }()
	t.store.Addrs = []string{c.redis}
	store, err := redisstore.New(t.store)
	if err != nil {
		return err
	}
	defer store.Close()
	gw, err := gateway.New(gateway.Config{Chains: t.chains, Stores: map[string]tierlock.Backend{"main": store}, Audit: log, Hooks: t.hooks})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, gw.Close(ctx))
	}()
	var chains []*gateway.Chain
	for name := range t.chains {
		chain, err := gw.Chain(name)
		if err != nil {
			return err
		}
		chains = append(chains, chain)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	}()
	var all sync.WaitGroup
	if t.beside != nil {
		all.Go(func() { t.beside(ctx, gw) })
	}
	var mu sync.Mutex // of our output
	for _, chain := range chains {
		for range t.workers {
			all.Go(func() {
				for ctx.Err() == nil {
					if h, ok := t.hold(chain); ok {
						mu.Lock()
						_, _ = fmt.Fprint(os.Stdout, h)
						mu.Unlock()
					}
				}
			})
		}
	}
	all.Wait()
	return nil
}

// live takes some key of a chain and holds it for stay. answered hears how long the call took
// and what came of it.
func live(c *gateway.Chain, process string, stay time.Duration, answered func(began, ended time.Time, tier string, err error)) (held, bool) {
	ctx := context.Background()
	began := time.Now()
	lock, err := c.TryLock(ctx, fmt.Sprint("u", rand.IntN(customers)))
	ended := time.Now()
	if err != nil {
		answered(began, ended, "", err)
		return held{}, false
	}
	g := lock.Grant()
	answered(began, ended, g.Tier.String(), nil)
	h := held{process: process, key: g.Key.String(), tier: g.Tier.String(), holder: g.RequestID.Fingerprint(), asked: began.UnixMicro(), from: time.Now().UnixMicro()}
	rest(stay)
	h.to = time.Now().UnixMicro()
	_ = lock.Unlock(ctx)
	h.over = time.Now().UnixMicro()
	return h, true
}

// held is one hold as its process lived it: surely from after the grant to before the release,
// and not before it was asked for nor after the release had returned. Wherever the process
// was stopped, the hold was no shorter than the one and no longer than the other.
type held struct {
	process, key, tier, holder string
	from, to                   int64 // µs: it was held
	asked, over                int64 // µs: it was not held before and after
}

func (h held) String() string {
	return fmt.Sprintln("held", h.process, h.key, h.tier, h.holder, h.from, h.to, h.asked, h.over)
}

// overlaps tells by how much two holds of one key overlapped at the least.
func (h held) overlaps(o held) time.Duration {
	return time.Duration(min(h.to, o.to)-max(h.from, o.from)) * time.Microsecond
}

// mayOverlap tells whether they can have overlapped at all.
func (h held) mayOverlap(o held) bool { return min(h.over, o.over) >= max(h.asked, o.asked) }

// process is a child and what it has told.
type process struct {
	name  string
	cmd   *exec.Cmd
	input interface{ Close() error }
	done  chan struct{}

	mu    sync.Mutex
	holds []held
	said  []string // beside them
}

func start(t *testing.T, name, redis, kafka, dir string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{name, redis, kafka, filepath.Join(dir, name)}, "|"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: cmd, input: in, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var h held
			_, err := fmt.Sscan(lines.Text(), new(string), &h.process, &h.key, &h.tier, &h.holder, &h.from, &h.to, &h.asked, &h.over)
			p.mu.Lock()
			if err == nil {
				p.holds = append(p.holds, h)
			} else {
				p.said = append(p.said, lines.Text())
			}
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() { p.stop(t) })
	return p
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.input.Close()
	<-p.done
	if p.cmd.ProcessState != nil {
		return
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s: %v %v", p.cmd.Env[len(p.cmd.Env)-1], err, p.said)
	}
}

// in counts the holds of a tier.
func (p *process) in(tier string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.holds {
		if h.tier == tier {
			n++
		}
	}
	return n
}

// inChain counts the holds of a chain on a tier.
func (p *process) inChain(chain, tier string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.holds {
		if h.tier == tier && strings.Contains(h.key, ":"+chain+":") {
			n++
		}
	}
	return n
}

func rest(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for tick := time.Tick(20 * time.Millisecond); !holds(); {
		select {
		case <-tick:
		case <-timeout:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
