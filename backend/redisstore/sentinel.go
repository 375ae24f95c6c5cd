package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// SentinelConfig says what sentinels are asked for.
type SentinelConfig struct {
	Master   string // name under which the sentinels watch the master; required
	Username string // of the sentinels themselves; none
	Password string // none
}

// newSentinels is a topology of one shard, without a name, whose master sentinels tell.
func newSentinels(cfg *Config, probe tierlock.Key) *fleet {
	f := newFleet(cfg, probe)
	f.scout.ask = func(ctx context.Context, w *witness) (report, error) { return askSentinel(ctx, w, cfg.Sentinel.Master) }
	f.scout.listen = func(ctx context.Context, w *witness) { listenToSentinel(ctx, w, f.scout.hint) }
	return f
}

var errNoMaster = errors.New("no such master")

// askSentinel asks in one round trip for the address, which a sentinel changes as soon as
// it has seen the new master take over, and for the epoch of that choice.
func askSentinel(ctx context.Context, w *witness, master string) (report, error) {
	var addr *redis.StringSliceCmd
	var state *redis.MapStringStringCmd
	_, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		addr = redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", master)
		state = redis.NewMapStringStringCmd(ctx, "sentinel", "master", master)
		_ = p.Process(ctx, addr)
		return p.Process(ctx, state)
	})
	if errors.Is(err, redis.Nil) {
		err = errNoMaster
	}
	if err != nil {
		return report{}, w.about(err)
	}
	host := addr.Val()
	epoch, err := strconv.ParseInt(state.Val()["config-epoch"], 10, 64)
	if err != nil || len(host) != 2 {
		return report{}, w.about(errors.New("it says nothing of the master's address or epoch"))
	}
	all := span{first: 0, last: slots - 1, addr: net.JoinHostPort(host[0], host[1])}
	return report{epoch: epoch, name: master, spans: []span{all}}, nil
}

// listenToSentinel gives a hint for each master that changes, until ctx ends. It is only a
// hint, since a push may be lost, and comes from a sentinel that may know less than others.
func listenToSentinel(ctx context.Context, w *witness, hint func()) {
	for ctx.Err() == nil {
		pushes := w.client.Subscribe(ctx, "+switch-master")
		stop := context.AfterFunc(ctx, func() { _ = pushes.Close() })
		for {
			if _, err := pushes.ReceiveMessage(ctx); err != nil {
				break
			}
			hint()
		}
		stop()
		_ = pushes.Close()
		timer := time.NewTimer(jitter(lookEvery))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}
