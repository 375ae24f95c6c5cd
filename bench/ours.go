package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
)

// errHeld says that somebody has the key, where nobody may.
var errHeld = errors.New("the lock is held by another")

func newID() string { return tierlock.NewRequestID().Secret() }

// patience is how long one question of ours may take here, instead of 200 ms, so that a busy
// machine is not taken for a slow store. Nobody else's is shorter.
const patience = time.Second

// ours is a gateway with one strong chain on a store with its defaults, and closes all that
// it stands on.
type ours struct {
	chain *gateway.Chain
	gw    *gateway.Gateway
	store *redisstore.Store
	trail *audit.Log // nil: audit off
	dir   string     // of the trail
}

// recorded says whether every grant and its end go to a spool on the disk, as is the
// default of a chain. Nothing forwards them.
type recorded bool

// openOurs makes the gateway; change may alter the chain's policy.
func openOurs(addr string, audited recorded, hooks gateway.Hooks, change func(*gateway.Policy)) (*ours, error) {
	o := new(ours)
	if err := o.open(addr, audited, hooks, change); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *ours) open(addr string, audited recorded, hooks gateway.Hooks, change func(*gateway.Policy)) (err error) {
	policy := gateway.Strong("what is measured", gateway.Fence)
	policy.LockDelay = -1 // the Redis here has just been started and has forgotten nothing
	policy.Attempt = patience
	if !audited {
		policy.Audit.Record = audit.RecordOff
	}
	change(&policy)
	if o.store, err = redisstore.New(redisstore.Config{Addrs: []string{addr}}); err != nil {
		return err
	}
	cfg := gateway.Config{
		Chains: map[string]gateway.Policy{"bench": policy},
		Stores: map[string]tierlock.Backend{"main": o.store},
		Hooks:  hooks,
	}
	if audited {
		if o.dir, err = os.MkdirTemp("", "tierlock-bench-spool-"); err != nil {
			return err
		}
		if o.trail, err = audit.Open(audit.Config{Dir: o.dir, Producer: "bench", Quota: 16 << 30}); err != nil {
			return err
		}
		cfg.Audit = o.trail
	}
	if o.gw, err = gateway.New(cfg); err != nil {
		return err
	}
	o.chain, err = o.gw.Chain("bench")
	return err
}

func (o *ours) pair(ctx context.Context, key string) error {
	l, err := o.chain.TryLock(ctx, key)
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// lost is how many events found no room in memory on their way to the disk.
func (o *ours) lost() uint64 {
	if o.trail == nil {
		return 0
	}
	return o.trail.Stats().Overflow
}

func (o *ours) Close() error {
	var errs []error
	if o.gw != nil {
		limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs = append(errs, o.gw.Close(limited))
	}
	if o.trail != nil {
		limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs = append(errs, o.trail.Close(limited))
	}
	if o.store != nil {
		errs = append(errs, o.store.Close())
	}
	if o.dir != "" {
		errs = append(errs, os.RemoveAll(o.dir))
	}
	return errors.Join(errs...)
}

// openPair returns what opens the gateway for pairs.
func openPair(audited recorded, fenced bool) func(context.Context, string) (locker, error) {
	return func(_ context.Context, addr string) (locker, error) {
		return openOurs(addr, audited, gateway.Hooks{}, func(p *gateway.Policy) { p.Fencing = fenced })
	}
}

// bareStore is the store without the gateway above it.
type bareStore struct {
	store  *redisstore.Store
	fenced bool
}

func openStore(fenced bool) func(context.Context, string) (locker, error) {
	return func(_ context.Context, addr string) (locker, error) {
		store, err := redisstore.New(redisstore.Config{Addrs: []string{addr}})
		return &bareStore{store, fenced}, err
	}
}

func (s *bareStore) pair(ctx context.Context, key string) error {
	named, err := tierlock.ParseKey(key)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	ctx = tierlock.Until(ctx, deadline)
	hold := tierlock.Hold{Key: named, ID: tierlock.NewRequestID(), TTL: peerTTL}
	answer, err := s.store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: s.fenced})
	if err != nil {
		return err
	}
	if answer.Status != tierlock.Granted {
		return errHeld
	}
	answer, err = s.store.Release(tierlock.Until(ctx, time.Now().Add(patience)), hold)
	if err == nil && answer.Status != tierlock.Released {
		err = errNotReleased
	}
	return err
}

func (s *bareStore) Close() error { return s.store.Close() }
