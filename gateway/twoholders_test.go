package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/internal/servers"
)

// fight is two who hold one key: who was granted it by the promoted master, and a rival who was
// granted it by the old one. The resource lets in whoever has the greater token.
type fight struct {
	lost          heard[gateway.LostInfo] // by the gateway of the legitimate one
	t             *testing.T
	ctx           context.Context // of both
	callOff       context.CancelFunc
	enter         func(tierlock.Grant) error
	legitimate    chan tierlock.Grant // its grant, once it was in
	rival         chan tierlock.Grant
	refused       chan struct{} // closed when the legitimate one has ended
	lower, higher chan error    // what came of its Do, and of the rival's
}

const fightKey = "10086"

func newFight(t *testing.T) *fight {
	t.Helper()
	ctx, callOff := context.WithCancel(t.Context())
	t.Cleanup(callOff)
	return &fight{
		t: t, ctx: ctx, callOff: callOff, enter: resource(t), legitimate: make(chan tierlock.Grant, 1), rival: make(chan tierlock.Grant, 1),
		refused: make(chan struct{}), lower: make(chan error, 1), higher: make(chan error, 1),
	}
}

// serve has c work under the key: once in at first, and once more when the rival was in.
func (f *fight) serve(c *gateway.Chain) {
	f.lower <- f.whenServed(c, f.legitimate, func(_ context.Context, g tierlock.Grant) error {
		select {
		case <-time.After(30 * time.Second):
			f.t.Error("the old master granted nothing")
			return nil
		case <-f.ctx.Done():
			return nil
		case other := <-f.rival:
			if other.Token <= g.Token {
				f.t.Errorf("token %d on the old master, %d on the promoted one: want it higher, as its clock is later", other.Token, g.Token)
			}
		}
		err := f.enter(g)
		if !errors.Is(err, guard.ErrStale) {
			f.t.Errorf("the lower token at the resource: %v", err)
		}
		return err
	})
	close(f.refused)
}

// challenge has c work under the same key, until its lock is lost.
func (f *fight) challenge(c *gateway.Chain) { f.higher <- f.whenServed(c, f.rival, f.contend) }

// challengeOnce is challenge by a single question; without an answer to it the fight is off.
func (f *fight) challengeOnce(c *gateway.Chain) {
	served, err := f.do(c, f.rival, f.contend)
	if !served {
		f.t.Logf("called off: the rival got %v", err)
		f.callOff()
	}
	f.higher <- err
}

// contend is the rival's work: in once more when the lower token was refused.
func (f *fight) contend(ctx context.Context, g tierlock.Grant) error {
	<-f.refused
	if err := f.enter(g); err != nil {
		f.t.Errorf("the higher token, when the lower one had gone: %v", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		f.t.Error("the holder on the old master was never told")
	}
	return context.Cause(ctx)
}

// whenServed is a Do of c that ends; those that were not served are made again.
func (f *fight) whenServed(c *gateway.Chain, in chan<- tierlock.Grant, work func(context.Context, tierlock.Grant) error) error {
	for {
		served, err := f.do(c, in, work)
		if served || f.ctx.Err() != nil {
			return err
		}
		pause(5 * time.Millisecond)
	}
}

func (f *fight) do(c *gateway.Chain, in chan<- tierlock.Grant, work func(context.Context, tierlock.Grant) error) (served bool, err error) {
	err = c.Do(f.ctx, fightKey, func(ctx context.Context, g tierlock.Grant) error {
		served = true
		if err := f.enter(g); err != nil {
			f.t.Errorf("the first time with token %d: %v", g.Token, err)
		}
		in <- g
		return work(ctx, g)
	}, gateway.WithTTL(6*time.Second))
	return served, err
}

// judge waits until both are done, and checks what they were told. It is false where the fight
// was called off.
func (f *fight) judge() bool {
	f.t.Helper()
	lower, higher := <-f.lower, <-f.higher
	if f.ctx.Err() != nil {
		return false
	}
	if !errors.Is(lower, tierlock.ErrLost) || !errors.Is(lower, guard.ErrStale) {
		f.t.Errorf("the holder that was refused: %v", lower)
	}
	if lost := f.lost.told(); len(lost) != 1 || !errors.Is(lost[0].Cause, guard.ErrStale) {
		f.t.Errorf("told of its loss: %+v", lost)
	}
	if !errors.Is(higher, tierlock.ErrLost) {
		f.t.Errorf("the holder on the old master: %v", higher)
	}
	return true
}

// A master freezes, another is promoted, and the old one wakes up while one process has not
// heard of it: two hold a key, and both work. The resource refuses whichever comes with the lower
// token, the legitimate holder too, whose Do ends as lost; the holder on the old master finds
// its lock lost when that has become a copy.
func TestOldMasterThatWakesUpLeavesTwoHolders(t *testing.T) {
	t.Parallel()
	watched := servers.Sentinels(t, 1)
	old := watched.Nodes[0]
	f := newFight(t)
	sentinels := redisstore.Config{Addrs: watched.Addrs(), Sentinel: &redisstore.SentinelConfig{Master: watched.Name}}
	here, _ := onStoreWith(t, sentinels, func(*gateway.Policy) {}, gateway.Hooks{Lost: f.lost.hear})
	unaware, _ := onStore(t, redisstore.Config{Addrs: []string{old.Addr()}})
	orders, elsewhere := chain(t, here, "order"), chain(t, unaware, "order")
	warm(t, orders, elsewhere)

	old.Freeze()
	frozen := time.Now()
	go f.serve(orders)
	first := <-f.legitimate
	took := time.Since(frozen)
	t.Logf("served through a gateway, with token %d, %v after the freeze", first.Token, took)
	if took > 5*time.Second {
		t.Errorf("served %v after the freeze", took)
	}
	old.Thaw()
	go f.challenge(elsewhere)
	f.judge()
}

// A master of a Cluster freezes with a gateway's question on its way, its replica takes its
// slots, and it answers that question as it wakes up, before it hears of anything: two hold the
// key here too, each of them under Do. The question is good for two seconds, in which another
// must have been served by the replica; on a machine that is too slow for that it is done again.
func TestOldMasterOfAClusterThatWakesUpLeavesTwoHolders(t *testing.T) {
	t.Parallel()
	for range 5 {
		if wakesUpInACluster(t) {
			return
		}
	}
	t.Fatal("no question was answered in time by the master that woke up")
}

func wakesUpInACluster(t *testing.T) (answered bool) {
	t.Helper()
	const attempt = 2 * time.Second // the longest that there is
	cluster := servers.Cluster(t, 3, 1)
	f := newFight(t)
	cfg := redisstore.Config{Addrs: cluster.Addrs(), Cluster: true}
	here, store := onStoreWith(t, cfg, func(*gateway.Policy) {}, gateway.Hooks{Lost: f.lost.hear})
	there, _ := onStoreWith(t, cfg, func(p *gateway.Policy) { p.Attempt, p.Wait = attempt, attempt })
	orders, elsewhere := chain(t, here, "order"), chain(t, there, "order")
	for _, c := range []*gateway.Chain{orders, elsewhere} { // each has a connection to the key's master
		waitFor(t, "a first lock of the key", func() bool {
			l, err := c.TryLock(t.Context(), fightKey)
			defer func() { _ = l.Unlock(t.Context()) }()
			return err == nil
		})
	}
	key, err := tierlock.ParseKey("biz:order:lock:" + fightKey)
	if err != nil {
		t.Fatal(err)
	}
	target := store.Traits().Sharder.Target(key)
	shard := cluster.Shards[int(target[len("shard-")]-'1')]
	old, next := shard[0], shard[1]
	boss := redis.NewClient(&redis.Options{Addr: next.Addr(), DisableIdentity: true})
	defer func() { _ = boss.Close() }()

	old.Freeze()
	frozen := time.Now()
	go f.challengeOnce(elsewhere) // it waits in the old master's socket, before what its peers will say
	waitFor(t, "the rival has asked", func() bool { return ownOf(there, target) == 1 })
	pause(50 * time.Millisecond)
	if err := boss.Do(t.Context(), "cluster", "failover", "takeover").Err(); err != nil {
		t.Fatal(err)
	}
	go f.serve(orders)
	select {
	case first := <-f.legitimate:
		t.Logf("served by the promoted master, with token %d, %v after the freeze", first.Token, time.Since(frozen))
	case <-f.ctx.Done():
	}
	old.Thaw()
	return f.judge()
}

// ownOf is how much of g's strong chain is on the wire to that target.
func ownOf(g *gateway.Gateway, target string) (out int) {
	for _, c := range g.Status().Chains {
		for _, at := range c.Targets {
			if c.Chain == "order" && at.Target == target {
				out += at.Own
			}
		}
	}
	return out
}
