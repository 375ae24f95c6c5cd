package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/pulse"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
	"github.com/tierlock/tierlock/switchcfg"
)

// shop is what the name of a child begins with that has three chains: coupons, vouchers that
// an order puts on bypass for as long as the store is away, and strong payments.
const shop = "shop-"

// answers are how long a child's calls took, without the time in which it did not run.
type answers struct {
	mu    sync.Mutex
	count map[string]int // by chain and what came of it
	worst time.Duration
}

func (a *answers) note(what string, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[what]++
	a.worst = max(a.worst, took)
}

// serveShop is a child of that name.
func serveShop(c child) error {
	weak := gateway.Weak("one claim of a user at a time", gateway.Reconcile)
	weak.Local.Permits, weak.TTL, weak.Ladder.RampEvery = 1, time.Minute, 100*time.Millisecond
	strong := gateway.Strong("one payment of an order at a time", gateway.Fence)
	strong.TTL = time.Minute
	orders := make(chan switchcfg.Document, 64)
	beat, told := pulse.Start(), answers{count: map[string]int{}}
	defer beat.Stop()
	err := c.ply(trade{
		store: redisstore.Config{PoolSize: 8}, chains: map[string]gateway.Policy{"coupon": weak, "voucher": weak, "payment": strong}, workers: 2,
		hooks: gateway.Hooks{Stepped: func(s gateway.StepInfo) {
			if s.Chain != "voucher" || s.To != degrade.Down && s.From != degrade.Down {
				return
			}
			d := switchcfg.Document{Version: s.Epoch, Chains: map[string]switchcfg.Directive{}}
			if s.To == degrade.Down {
				d.Chains["voucher"] = switchcfg.Directive{Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "cut off", By: "test"}
			}
			orders <- d
		}},
		beside: func(ctx context.Context, gw *gateway.Gateway) {
			for {
				select {
				case d := <-orders:
					if err := gw.Apply(d); err != nil {
						fmt.Fprintln(os.Stderr, "child:", err)
					}
				case <-ctx.Done():
					return
				}
			}
		},
		hold: func(chain *gateway.Chain) (held, bool) {
			return live(chain, c.name, time.Duration(10+rand.IntN(20))*time.Millisecond, func(began, ended time.Time, tier string, err error) {
				what := tier
				if err != nil {
					what = err.Error()
					if e, ok := errors.AsType[*tierlock.Error](err); ok {
						what = e.Outcome.String() + "/" + string(e.Reason)
					}
				}
				told.note(chain.Name()+"/"+what, ended.Sub(began)-beat.Stalled(began, ended))
				if err != nil {
					rest(5 * time.Millisecond)
				}
			})
		},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, "worst", told.worst.Microseconds(), told.count)
	return err
}

// One of three processes is cut off from the store, and an order puts its vouchers on bypass,
// while the others go on. Everybody is answered in time, each by what its own way gives: the
// one cut off local and by bypass, its payments refused. Every overlap that the processes
// lived through is in a finding; the one comes back by itself, and nothing stays in the store.
func TestOneOfThreeProcessesIsCutOff(t *testing.T) {
	server, kafka := servers.Redis(t), servers.Kafka(t)
	broken, err := way.To(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broken.Close)
	dir := t.TempDir()
	cut := start(t, shop+"cut-off", broken.Addr(), kafka.Addr(), dir)
	crew := []*process{cut, start(t, shop+"free-1", server.Addr(), kafka.Addr(), dir), start(t, shop+"free-2", server.Addr(), kafka.Addr(), dir)}
	served := func(p *process, more int) func() bool {
		was := map[string]int{}
		for _, chain := range []string{"coupon", "voucher", "payment"} {
			was[chain] = p.inChain(chain, "shared")
		}
		return func() bool {
			for chain, n := range was {
				if p.inChain(chain, "shared") < n+more {
					return false
				}
			}
			return true
		}
	}
	for _, p := range crew {
		await(t, "shared holds of every chain of all", served(p, 10))
	}
	broken.Become(way.LoseReplies) // what is out is done, and nobody hears of it
	rest(600 * time.Millisecond)   // an unlock, and the next call
	broken.Cut()
	broken.Become(way.None)
	goOn := []func() bool{served(crew[1], 20), served(crew[2], 20)}
	const grants = 100
	await(t, "local and bypass holds of the one cut off", func() bool {
		return cut.inChain("coupon", "local") > grants && cut.inChain("voucher", "bypass") > grants
	})
	for _, more := range goOn {
		await(t, "shared holds of the others meanwhile", more)
	}
	if err := broken.Restore(); err != nil {
		t.Fatal(err)
	}
	await(t, "shared holds of the one that is back", served(cut, 10))
	var all []held
	for _, p := range crew {
		p.stop(t)
		all = append(all, p.holds...)
		if p != cut && (p.in("local") > 0 || p.in("bypass") > 0) {
			t.Errorf("%d local and %d bypass holds of one that was not cut off", p.in("local"), p.in("bypass"))
		}
	}
	inTime(t, crew, cut)
	leftInStore(t, server.Addr())
	want := clashes(all)
	tiers := map[string]int{}
	for _, p := range want {
		for _, h := range p {
			tiers[h.tier]++
		}
	}
	if tiers["local"] < 10 || tiers["bypass"] < 10 {
		t.Fatalf("%d clashes of %d holds: %v", len(want), len(all), tiers)
	}
	found := reconciled(t, kafka.Addr(), len(all))
	pairs := found.together()
	for _, p := range want {
		if !pairs[[2]string{p[0].holder, p[1].holder}] {
			t.Errorf("missed: %v%v", p[0], p[1])
		}
	}
	t.Logf("%d holds, %d local, %d bypass; %d clashes lived through, each in one of %d findings", len(all), cut.in("local"), cut.in("bypass"), len(want), len(found.by))
}

// inTime holds how long the processes' calls took and what came of them, as each told at its
// end.
func inTime(t *testing.T, crew []*process, cut *process) {
	t.Helper()
	for _, p := range crew {
		worst := int64(-1)
		for _, line := range p.said {
			_, _ = fmt.Sscan(line, new(string), &worst)
			t.Log(p.name, line)
			if p == cut && !strings.Contains(line, "payment/system_error/") {
				t.Error("its payments were not refused")
			}
			if strings.Contains(line, "payment/local") || strings.Contains(line, "payment/bypass") {
				t.Error("a payment below shared")
			}
		}
		// 200 ms are the attempt's. The pulse does not know how long one goroutine waits for a
		// processor that others have.
		if worst < 0 || worst > time.Second.Microseconds() {
			t.Errorf("an answer took %d µs", worst)
		}
	}
}

// leftInStore waits until the store has no lock: those of a minute's ttl would stand long.
func leftInStore(t *testing.T, addr string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	var keys []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); rest(50 * time.Millisecond) {
		var err error
		if keys, err = client.Keys(t.Context(), "biz:*:lock:*").Result(); err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			return
		}
	}
	t.Errorf("%d locks stand in the store, of nobody: %q", len(keys), keys[:min(3, len(keys))])
}
