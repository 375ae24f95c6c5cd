package redisstore

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// probeConns is how many connections probes have to themselves: one to use while
	// another, which met a silent server, is being replaced.
	probeConns = 2
	// maxDials bounds the connections that one pool makes at once, so that a server that
	// answers too late is not met with a storm of new ones for those that timed out.
	maxDials = 16
	// socketTimeout ends what carries no deadline of its own; nothing here does.
	socketTimeout = 5 * time.Second
)

// client makes one pool of up to size connections. Why each setting differs from
// go-redis's default: nothing is sent twice (MaxRetries, a repeated SET NX meets itself);
// nothing waits past the caller's deadline (ContextTimeoutEnabled, PoolTimeout); nothing
// dials at New or after the caller has gone for long (MinIdleConns, DialerRetries).
func (n *node) client(size int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                       n.addr,
		Username:                   n.cfg.Username,
		Password:                   n.cfg.Password,
		CredentialsProviderContext: n.cfg.Credentials,
		DB:                         n.cfg.DB,
		Dialer:                     n.dials.dial,
		OnConnect:                  n.greet,
		MaxRetries:                 -1,
		ContextTimeoutEnabled:      true,
		ReadTimeout:                socketTimeout,
		WriteTimeout:               socketTimeout,
		DialTimeout:                n.cfg.Dial,
		DialerRetries:              1,
		PoolSize:                   size,
		PoolTimeout:                n.cfg.Timeout / 2, // then the fault says saturated, not late
		MaxConcurrentDials:         maxDials,
		DisableIdentity:            true,
		PipelinePoolSize:           -1,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
}

// greet is run on each new connection before its first question: in one round trip it
// learns the server's clock and identity and loads the scripts. A server that refuses any
// of it (an ACL, a server still loading) will say so again to the question itself; only a
// broken connection is an error here, and a password that is wanted: whoever gave none may
// not send more than ten words at once, and a server that gets more calls it a broken
// protocol.
func (n *node) greet(ctx context.Context, c *redis.Conn) error {
	var now *redis.TimeCmd
	info := redis.NewStringCmd(ctx, "info", "server")
	sent := time.Now()
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		if !n.functions.wanted {
			for _, o := range operations {
				p.ScriptLoad(ctx, o.script.source)
			}
		}
		return p.Process(ctx, info)
	})
	if err != nil && (!answered(err) || redis.IsAuthError(err)) {
		return err
	}
	if n.clock.meet(runID(info.Val())) {
		n.cfg.Logger.InfoContext(ctx, "redis is another process than before", slog.String("addr", n.addr))
	}
	if now.Err() == nil {
		n.learn(ctx, sent, now.Val())
	}
	return nil
}

// learn takes in the server time of a reply to what was sent then. A step of that clock
// weakens what every lock on this server promises, so it is told.
func (n *node) learn(ctx context.Context, sent, server time.Time) {
	if n.clock.learn(sent, time.Now(), server) {
		n.cfg.Logger.WarnContext(ctx, "redis clock was stepped: locks may end early or late", slog.String("addr", n.addr))
	}
}

// heard learns from the server time of a reply to what was sent then, if it has one.
func (n *node) heard(ctx context.Context, sent time.Time, r reply) bool {
	if r.now == 0 {
		return false
	}
	n.learn(ctx, sent, time.UnixMicro(r.now))
	return true
}
