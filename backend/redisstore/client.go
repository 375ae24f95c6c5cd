package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// maxDials bounds the connections that one pool makes at once, so that a server that
	// answers too late is not met with a storm of new ones for those that timed out.
	maxDials = 16
	// socketTimeout ends what takes longer, whatever its own deadline. The longest of those is
	// a renewal's, which the watchdog of package gateway holds below it.
	socketTimeout = 5 * time.Second
)

// options are those of one pool of up to size connections. Why each setting differs from
// go-redis's default: nothing is sent twice (MaxRetries, a repeated SET NX meets itself);
// nothing waits past the caller's deadline (ContextTimeoutEnabled, PoolTimeout); nothing
// dials at New or after the caller has gone for long (MinIdleConns, DialerRetries).
func options(cfg *Config, addr string, dials *dialer, size int) *redis.Options {
	return &redis.Options{
		Addr:                       addr,
		Username:                   cfg.Username,
		Password:                   cfg.Password,
		CredentialsProviderContext: cfg.Credentials,
		DB:                         cfg.DB,
		Dialer:                     dials.dial,
		MaxRetries:                 -1,
		ContextTimeoutEnabled:      true,
		ReadTimeout:                socketTimeout,
		WriteTimeout:               socketTimeout,
		DialTimeout:                cfg.Dial,
		DialerRetries:              1,
		PoolSize:                   size,
		PoolTimeout:                cfg.Timeout / 2, // then the fault says saturated, not late
		MaxConcurrentDials:         maxDials,
		DisableIdentity:            true,
		PipelinePoolSize:           -1,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
}

// client makes one of the node's pools.
func (n *node) client(size int) *redis.Client {
	o := options(n.cfg, n.addr, &n.dials, size)
	o.OnConnect = n.greet
	return redis.NewClient(o)
}

// greet is run on each new connection before its first question: in one round trip it
// learns the server's clock and identity and loads the scripts. A server that refuses any
// of it (an ACL, a server still loading) will say so again to the question itself. Errors
// here are a broken connection; a password that is wanted, since whoever gave none may not
// send more than ten words at once, and a server that gets more calls it a broken protocol;
// and a replica where sentinels choose the master, since it would answer what needs no
// write from a copy.
func (n *node) greet(ctx context.Context, c *redis.Conn) error {
	var now *redis.TimeCmd
	info := redis.NewStringCmd(ctx, "info", "server")
	if n.cfg.Sentinel != nil {
		info = redis.NewStringCmd(ctx, "info", "server", "replication")
	}
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
	if n.cfg.Sentinel != nil && infoField(info.Val(), "role") == "slave" {
		return errReplica
	}
	n.meet(ctx, info.Val(), time.Now())
	if now.Err() == nil {
		n.learn(ctx, sent, now.Val())
	}
	n.inbox.open()
	n.prober.warm()
	return nil
}

// errReplica says that a server is not the master that sentinels had said it is. Nothing
// was asked.
var errReplica = errors.New("it is a replica, the master is another")

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
