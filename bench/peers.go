package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// peerTTL is the ttl of every lock here: our default.
const peerTTL = 15 * time.Second

// errNotReleased says that the lock was not ours any more, which on keys of one's own
// must not be.
var errNotReleased = errors.New("the lock was not held when it was given back")

// goRedis is a client with a pool of that size and without the extra round trips that
// newer servers are greeted with; all else is its default.
func goRedis(addr string, pool int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: pool, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// piped is the same under the client's own batching, which needs one connection.
func piped(addr string) (*redis.AutoPipeliner, func() error, error) {
	client := goRedis(addr, peerPool)
	auto, err := client.AutoPipeline()
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return auto, func() error { return errors.Join(auto.Close(), client.Close()) }, nil
}

// bare does what every lock on Redis does at least, and nothing else.
type bare struct {
	client  redis.Cmdable
	release *redis.Script
	close   func() error
}

func newBare(ctx context.Context, client redis.Cmdable, end func() error) (*bare, error) {
	b := &bare{client: client, close: end, release: redis.NewScript(
		`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)}
	if err := b.release.Load(ctx, client).Err(); err != nil {
		return nil, errors.Join(err, end())
	}
	return b, nil
}

func openBare(ctx context.Context, addr string) (locker, error) {
	client := goRedis(addr, peerPool)
	return newBare(ctx, client, client.Close)
}

func openBarePiped(ctx context.Context, addr string) (locker, error) {
	auto, end, err := piped(addr)
	if err != nil {
		return nil, err
	}
	return newBare(ctx, auto, end)
}

func (b *bare) pair(ctx context.Context, key string) error {
	id := newID()
	ok, err := b.client.SetNX(ctx, key, id, peerTTL).Result()
	if err != nil {
		return err
	}
	if !ok {
		return errHeld
	}
	n, err := b.release.EvalSha(ctx, b.client, []string{key}, id).Int()
	if err == nil && n != 1 {
		err = errNotReleased
	}
	return err
}

func (b *bare) Close() error { return b.close() }

// viaRedsync makes a mutex per lock, as its documentation does.
type viaRedsync struct {
	sync  *redsync.Redsync
	close func() error
}

func openRedsync(_ context.Context, addr string) (locker, error) {
	client := goRedis(addr, peerPool)
	return &viaRedsync{redsync.New(goredis.NewPool(client)), client.Close}, nil
}

func openRedsyncPiped(_ context.Context, addr string) (locker, error) {
	auto, end, err := piped(addr)
	if err != nil {
		return nil, err
	}
	return &viaRedsync{redsync.New(goredis.NewPool(auto)), end}, nil
}

func (r *viaRedsync) pair(ctx context.Context, key string) error {
	m := r.sync.NewMutex(key, redsync.WithExpiry(peerTTL))
	if err := m.TryLockContext(ctx); err != nil {
		return err
	}
	ok, err := m.UnlockContext(ctx)
	if err == nil && !ok {
		err = errNotReleased
	}
	return err
}

func (r *viaRedsync) Close() error { return r.close() }

// viaRedislock is bsm/redislock.
type viaRedislock struct {
	client *redislock.Client
	close  func() error
}

func openRedislock(_ context.Context, addr string) (locker, error) {
	client := goRedis(addr, peerPool)
	return &viaRedislock{redislock.New(client), client.Close}, nil
}

func openRedislockPiped(_ context.Context, addr string) (locker, error) {
	auto, end, err := piped(addr)
	if err != nil {
		return nil, err
	}
	return &viaRedislock{redislock.New(auto), end}, nil
}

func (r *viaRedislock) pair(ctx context.Context, key string) error {
	l, err := r.client.Obtain(ctx, key, peerTTL, nil)
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

func (r *viaRedislock) Close() error { return r.close() }

// viaRueidis is rueidislock on one key a lock (its default of three doubles the work for
// nothing on one Redis), with NOLOOP as it advises for speed. Its 20 ms for an acquire are
// raised, so that a busy machine is not taken for a failed lock.
type viaRueidis struct{ locker rueidislock.Locker }

func openRueidis(_ context.Context, addr string) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    peerTTL,
		TryNextAfter:   patience,
	})
	if err != nil {
		return nil, err
	}
	return &viaRueidis{l}, nil
}

func (r *viaRueidis) pair(ctx context.Context, key string) error {
	_, cancel, err := r.locker.TryWithContext(ctx, key)
	if err != nil {
		return err
	}
	cancel() // returns once the key is given back
	return nil
}

func (r *viaRueidis) Close() error { r.locker.Close(); return nil }
