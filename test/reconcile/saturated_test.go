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
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// childEnv makes the test binary a process that takes locks until its input ends, and
// prints each hold. Its value is name|redis|kafka|folder.
const childEnv = "TIERLOCK_RECONCILE_CHILD"

const (
	wire      = 2  // operations that a process may have out; two replies that come late fill it
	customers = 30 // keys
	workers   = 6
)

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

func serve(text string) (err error) {
	part := strings.Split(text, "|")
	name := part[0]
	if strings.HasPrefix(name, shop) {
		return serveShop(name, part[1], part[2], part[3])
	}
	sink, err := kafkasink.New(kafkasink.Config{Brokers: []string{part[2]}, Partitions: 4})
	if err != nil {
		return err
	}
	defer sink.Close()
	log, err := audit.Open(audit.Config{Dir: part[3], Producer: name, Sink: sink, Heartbeat: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close(context.Background())) }()
	store, err := redisstore.New(redisstore.Config{Addrs: []string{part[1]}, PoolSize: 1, Wire: wire})
	if err != nil {
		return err
	}
	defer store.Close()
	weak := gateway.Weak("one claim of a coupon per user at a time", gateway.Reconcile)
	weak.Local.Permits, weak.Ladder.SaturateIn, weak.Ladder.Timeouts, weak.TTL = 1, time.Second, 64, 5*time.Second
	gw, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"coupon": weak}, Stores: map[string]tierlock.Backend{"main": store}, Audit: log,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, gw.Close(ctx))
	}()
	coupons, err := gw.Chain("coupon")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until our parent has had enough, or is gone
	}()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				if h, ok := claim(coupons, name); ok {
					mu.Lock()
					_, _ = fmt.Fprint(os.Stdout, h)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return nil
}

// claim holds one key for a while.
func claim(coupons *gateway.Chain, process string) (held, bool) {
	ctx := context.Background()
	asked := time.Now().UnixMicro()
	lock, err := coupons.TryLock(ctx, fmt.Sprint("u", rand.IntN(customers)))
	if err != nil {
		rest(time.Millisecond)
		return held{}, false
	}
	g := lock.Grant()
	h := held{process: process, key: g.Key.String(), tier: g.Tier.String(), holder: g.RequestID.Fingerprint(), asked: asked, from: time.Now().UnixMicro()}
	rest(time.Duration(5+rand.IntN(20)) * time.Millisecond)
	h.to = time.Now().UnixMicro()
	_ = lock.Unlock(ctx)
	h.over = time.Now().UnixMicro()
	return h, true
}

func rest(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
}

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

// kept keeps findings by id.
type kept struct {
	mu sync.Mutex
	by map[string]reconcile.Finding
}

func (s *kept) Put(_ context.Context, f reconcile.Finding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.by[f.ID]; !known || f.Replaces(&was) {
		s.by[f.ID] = f
	}
	return nil
}

// together tells which pairs of holders are in one finding.
func (s *kept) together() map[[2]string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pairs := map[[2]string]bool{}
	for _, f := range s.by {
		for i := range f.Members {
			for j := range f.Members {
				pairs[[2]string{f.Members[i].Holder, f.Members[j].Holder}] = true
			}
		}
	}
	return pairs
}

// clashes are the pairs of holds of two processes, one shared and one local, that
// overlapped by more than a moment.
func clashes(all []held) (pairs [][2]held) {
	byKey := map[string][]held{}
	for _, h := range all {
		byKey[h.key] = append(byKey[h.key], h)
	}
	for _, list := range byKey {
		for i, a := range list {
			for _, b := range list[i+1:] {
				if a.process != b.process && a.tier != b.tier && a.overlaps(b) > time.Millisecond {
					pairs = append(pairs, [2]held{a, b})
				}
			}
		}
	}
	return pairs
}

// One of three processes has its wire full and grants local, while the others hold shared
// on the same keys. Every overlap that the processes lived through is in a finding, and
// none is called certain that was not.
func TestNoOverlapOfASaturatedProcessIsMissed(t *testing.T) {
	redis, kafka := servers.Redis(t), servers.Kafka(t)
	slow, err := way.To(redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	dir := t.TempDir()
	full := start(t, "full", slow.Addr(), kafka.Addr(), dir)
	crew := []*process{full, start(t, "free-1", redis.Addr(), kafka.Addr(), dir), start(t, "free-2", redis.Addr(), kafka.Addr(), dir)}
	await(t, "shared holds of all", func() bool {
		return full.in("shared") > 20 && crew[1].in("shared") > 20 && crew[2].in("shared") > 20
	})
	slow.Delay(60 * time.Millisecond)
	await(t, "local holds of the saturated one", func() bool { return full.in("local") > 200 })
	slow.Delay(0)
	var all []held
	for _, p := range crew {
		p.stop(t)
		all = append(all, p.holds...)
	}
	want := clashes(all)
	if len(want) < 20 {
		t.Fatalf("%d clashes of %d holds, %d local", len(want), len(all), full.in("local"))
	}

	found := reconciled(t, kafka.Addr(), len(all))
	pairs, missed := found.together(), 0
	for _, p := range want {
		if !pairs[[2]string{p[0].holder, p[1].holder}] {
			missed++
			t.Errorf("missed: %v%v", p[0], p[1])
		}
	}
	lived := map[string]held{}
	for _, h := range all {
		lived[h.holder] = h
	}
	certain := 0
	for _, f := range found.by {
		if f.Kind != reconcile.KindOverlap || !f.Certain {
			continue
		}
		certain++
		if really := overlapping(f.Members, lived); really < f.CertainPairs {
			t.Errorf("%d pairs are certain and %d overlapped: %+v", f.CertainPairs, really, f)
		}
	}
	t.Logf("%d holds, %d local; %d clashes lived through, %d missed; %d findings, %d certain", len(all), full.in("local"), len(want), missed, len(found.by), certain)
}

// overlapping counts the pairs of a finding's holds that can have overlapped. A grant begins
// before its caller has it, and ends after he has let go, and a process may be stopped for
// any time between: so they count from their asking to the return of their release. A hold
// that no process has lived is one whose caller had given up; it is in no certain pair.
func overlapping(members []reconcile.Interval, lived map[string]held) (pairs int) {
	for i := range members {
		a, known := lived[members[i].Holder]
		for j := range members[:i] {
			if b, both := lived[members[j].Holder]; known && both && a.holder != b.holder && a.mayOverlap(b) {
				pairs++
			}
		}
	}
	return pairs
}

// reconciled runs a job until it has judged everything: all producers have sealed.
func reconciled(t *testing.T, kafka string, holds int) *kept {
	t.Helper()
	source, err := kafkasource.New(kafkasource.Config{Brokers: []string{kafka}, MaxWait: 50 * time.Millisecond, Session: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	found := &kept{by: map[string]reconcile.Finding{}}
	job, err := reconcile.New(reconcile.Config{Source: source, Findings: []reconcile.Findings{found}, Tick: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := job.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	await(t, "the judgement of every hold", func() bool {
		st := job.Stats()
		return st.Holds >= uint64(holds) && st.OpenHolds == 0
	})
	cancel()
	run.Wait()
	if err := source.Close(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
	if r := job.Report(); !r.Complete {
		t.Errorf("something is missing: %+v", r.Missing)
	}
	return found
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
