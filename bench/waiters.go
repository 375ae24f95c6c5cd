package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// waiter is a locker that can wait for a holder, until ctx ends. It returns what gives the
// lock back.
type waiter interface {
	wait(ctx context.Context, key string) (giveBack func(context.Context) error, err error)
	Close() error
}

// waiting is one way to wait, and how it is set up.
type waiting struct {
	name  string
	setup string
	// sends are the commands that its callers send; what its scripts call is counted by the
	// server under the same heads and is none of them.
	sends []string
	open  func(ctx context.Context, addr string) (waiter, error)
}

// scriptCommands are what our store sends once it is connected; what its scripts call has
// other names.
func scriptCommands() []string {
	return []string{"evalsha", "eval", "fcall", "subscribe", "ssubscribe", "unsubscribe", "sunsubscribe"}
}

// waitings are all that handover lets run.
func waitings() []waiting {
	scripts := scriptCommands()
	return []waiting{
		{
			name: oursName, setup: "Lock with a wait of 2 s, again when it ends; a fencing token a grant; audit: off", sends: scripts,
			open: func(_ context.Context, addr string) (waiter, error) {
				return openOurs(addr, false, gateway.Hooks{}, func(*gateway.Policy) {})
			},
		},
		{name: "redsync", setup: "its default of a try every 50 to 250 ms", sends: append(scripts, "set"), open: waitVia[*viaRedsync](openRedsync)},
		{name: "redislock", setup: "LinearBackoff(20ms)", sends: scripts, open: waitVia[*viaRedislock](openRedislock)},
		{name: "rueidislock", setup: "a majority of one key, NOLOOP, woken by invalidation", sends: scripts, open: waitVia[*viaRueidis](openRueidis)},
	}
}

func waitVia[W waiter](open func(context.Context, string) (locker, error)) func(context.Context, string) (waiter, error) {
	return func(ctx context.Context, addr string) (waiter, error) {
		l, err := open(ctx, addr)
		if err != nil {
			return nil, err
		}
		w, ok := l.(W)
		if !ok {
			return nil, errors.Join(errors.New("cannot wait"), l.Close())
		}
		return w, nil
	}
}

// wait polls as its defaults say.
func (r *viaRedsync) wait(ctx context.Context, key string) (func(context.Context) error, error) {
	m := r.sync.NewMutex(key, redsync.WithExpiry(peerTTL), redsync.WithTries(1<<20))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err }, nil
}

// wait polls: redislock waits only as its caller says, here every 20 ms.
func (r *viaRedislock) wait(ctx context.Context, key string) (func(context.Context) error, error) {
	l, err := r.client.Obtain(ctx, key, peerTTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(20 * time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// wait is woken by the server's invalidation of the key.
func (r *viaRueidis) wait(ctx context.Context, key string) (func(context.Context) error, error) {
	_, cancel, err := r.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { cancel(); return nil }, nil
}

// wait is one long wait made of several: a single one is bounded by 2 s, and what ends it on a
// busy machine may be a question that took too long.
func (o *ours) wait(ctx context.Context, key string) (func(context.Context) error, error) {
	for {
		l, err := o.chain.Lock(ctx, key, gateway.WithWait(2*time.Second))
		if err == nil {
			return l.Unlock, nil
		}
		if ctx.Err() != nil || !errors.Is(err, tierlock.ErrHeld) && !errors.Is(err, tierlock.ErrTimeout) {
			return nil, err
		}
	}
}
