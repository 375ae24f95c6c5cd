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
	enter         func(tierlock.Grant) error
	legitimate    chan tierlock.Grant // its grant, once it was in
	rival         chan tierlock.Grant
	refused       chan struct{} // closed when the legitimate one has ended
	lower, higher chan error    // what came of its Do, and of the rival's
}

const fightKey = "10086"

func newFight(t *testing.T) *fight {
	t.Helper()
	return &fight{
		t: t, enter: resource(t), legitimate: make(chan tierlock.Grant, 1), rival: make(chan tierlock.Grant, 1),
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
func (f *fight) challenge(c *gateway.Chain) {
	f.higher <- f.whenServed(c, f.rival, func(ctx context.Context, g tierlock.Grant) error {
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
	})
}

// whenServed is a Do of c that ends; those that were not served are made again.
func (f *fight) whenServed(c *gateway.Chain, in chan<- tierlock.Grant, work func(context.Context, tierlock.Grant) error) error {
	for {
		served := false
		err := c.Do(f.t.Context(), fightKey, func(ctx context.Context, g tierlock.Grant) error {
			served = true
			if err := f.enter(g); err != nil {
				f.t.Errorf("the first time with token %d: %v", g.Token, err)
			}
			in <- g
			return work(ctx, g)
		}, gateway.WithTTL(6*time.Second))
		if served {
			return err
		}
		pause(5 * time.Millisecond)
	}
}

// wasRefused checks what the legitimate one was told.
func (f *fight) wasRefused() {
	f.t.Helper()
	if err := <-f.lower; !errors.Is(err, tierlock.ErrLost) || !errors.Is(err, guard.ErrStale) {
		f.t.Errorf("the holder that was refused: %v", err)
	}
	if lost := f.lost.told(); len(lost) != 1 || !errors.Is(lost[0].Cause, guard.ErrStale) {
		f.t.Errorf("told of its loss: %+v", lost)
	}
}

// judge checks what both were told.
func (f *fight) judge() {
	f.t.Helper()
	f.wasRefused()
	if err := <-f.higher; !errors.Is(err, tierlock.ErrLost) {
		f.t.Errorf("the holder on the old master: %v", err)
	}
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

// A master of a Cluster freezes with a question on its way, its replica takes its slots, and it
// answers that question as it wakes up, before it hears of anything: two hold the key here too.
func TestOldMasterOfAClusterThatWakesUpLeavesTwoHolders(t *testing.T) {
	t.Parallel()
	cluster := servers.Cluster(t, 3, 1)
	f := newFight(t)
	here, store := onStoreWith(t, redisstore.Config{Addrs: cluster.Addrs(), Cluster: true}, func(*gateway.Policy) {}, gateway.Hooks{Lost: f.lost.hear})
	orders := chain(t, here, "order")
	warm(t, orders)
	key, err := tierlock.ParseKey("biz:order:lock:" + fightKey)
	if err != nil {
		t.Fatal(err)
	}
	shard := cluster.Shards[int(store.Traits().Sharder.Target(key)[len("shard-")]-'1')]
	old, next := shard[0], shard[1]
	_, unaware := onStore(t, redisstore.Config{Addrs: []string{old.Addr()}})
	hold := tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: time.Minute}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waitFor(t, "its connection is there", func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		req := tierlock.Request{Hold: hold, NotAfter: time.Now().Add(time.Second)}
		if answer, err := unaware.Acquire(ctx, req); err != nil || answer.Status != tierlock.Granted {
			return false
		}
		_, err := unaware.Release(ctx, hold)
		return err == nil
	})
	boss := redis.NewClient(&redis.Options{Addr: next.Addr(), DisableIdentity: true})
	defer func() { _ = boss.Close() }()

	old.Freeze()
	rival := make(chan tierlock.Answer, 1)
	go func() { // it waits in the old master's socket, before what its peers will say
		hold.ID = tierlock.NewRequestID()
		answer, err := unaware.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: time.Now().Add(time.Minute), Fenced: true})
		if err != nil {
			t.Errorf("the old master answers %v", err)
		}
		rival <- answer
	}()
	pause(50 * time.Millisecond)
	if err := boss.Do(t.Context(), "cluster", "failover", "takeover").Err(); err != nil {
		t.Fatal(err)
	}
	go f.serve(orders)
	first := <-f.legitimate
	old.Thaw()
	answer := <-rival
	if answer.Status != tierlock.Granted || answer.Token <= first.Token {
		t.Fatalf("the old master answers %v, token %d; the promoted one granted with token %d", answer.Status, answer.Token, first.Token)
	}
	second := tierlock.Grant{Key: key, Token: answer.Token}
	if err := f.enter(second); err != nil {
		t.Errorf("the higher token: %v", err)
	}
	f.rival <- second
	f.wasRefused()
	if err := f.enter(second); err != nil {
		t.Errorf("the higher token, when the lower one had gone: %v", err)
	}
	lost := func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := unaware.Renew(ctx, []tierlock.Hold{hold})
		return err != nil // it is a copy now, and points to the promoted one
	}
	waitFor(t, "the old master keeps no lock", lost)
}
