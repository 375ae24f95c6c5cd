package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/hostport"
)

// Config of a [Store]. Zero fields mean the stated default.
type Config struct {
	// Addrs is where Redis listens, as host:port: one address. With Sentinel it is where
	// the sentinels listen, all of them; with Cluster some servers, which tell of the others.
	Addrs    []string
	Sentinel *SentinelConfig // nil: no sentinels
	Cluster  bool            // false: no Redis Cluster
	Username string          // of Redis, as are password, database and TLS; sentinels share TLS
	Password string
	// Credentials, where it is there, tells user and password for each new connection,
	// instead of the two above: so a password can be changed while the Store runs, and
	// connections that are there go on. It is called from any goroutine and must return by
	// its context's deadline. Where it fails, what it told last is used.
	Credentials func(ctx context.Context) (username, password string, err error)
	DB          int         // 0
	TLS         *tls.Config // nil: no TLS

	// Wire is how many acquires may be out at once on one server. Those who meet there share
	// calls, so they are more than the connections. 1024.
	Wire int
	// PoolSize is the number of connections to one server that acquires may use. Releases,
	// renewals and lookups may use as many of their own. While a server is quick, two of each
	// serve all; the rest is for one that is far, slow or silent. 64.
	PoolSize int
	// Timeout is how long one question may take when its context has no deadline: the
	// requirement's 200 ms.
	Timeout time.Duration
	// Dial is how long making one connection may take, TLS included. A question that waits
	// for it still ends by its own deadline; the connection then serves the next. Timeout.
	Dial time.Duration

	// Functions has each operation be a call of a function of the library that
	// [Store.LoadLibrary] loads, so that the ACL user needs no right to run scripts. A
	// server that lacks them gets scripts, and the log says so.
	Functions bool

	Logger *slog.Logger // nil: discard
}

const (
	defaultWire     = 1024 // design
	defaultPoolSize = 64
	defaultTimeout  = 200 * time.Millisecond // requirement: the first step down
	maxPoolSize     = 10_000                 // the default maxclients of a whole Redis
)

// Validate reports every fault at once, each a [*tierlock.InvalidError]; zero fields but
// Addrs are not faults.
func (c Config) Validate() error {
	var faults []error
	bad := func(field, value, rule string) { faults = append(faults, tierlock.Invalid(field, value, rule)) }
	switch {
	case len(c.Addrs) == 0:
		bad("addrs", "", "is required: want host:port")
	case len(c.Addrs) > 1 && c.Sentinel == nil && !c.Cluster:
		bad("addrs", strings.Join(c.Addrs, ","), "want exactly one address, or sentinel or cluster")
	}
	if c.Sentinel != nil && c.Cluster {
		bad("cluster", "true", "want sentinel or cluster, not both")
	}
	if s := c.Sentinel; s != nil {
		if s.Master == "" {
			bad("sentinel.master", "", "is required: want the name under which the sentinels watch it")
		}
		if s.Username != "" && s.Password == "" {
			bad("sentinel.password", "", "is missing for the username")
		}
	}
	if c.Cluster && c.DB > 0 {
		bad("db", strconv.Itoa(c.DB), "want 0: a Cluster has no other")
	}
	for _, addr := range c.Addrs {
		if !hostport.Valid(addr) {
			bad("addrs", addr, hostport.Rule)
		}
	}
	if c.DB < 0 {
		bad("db", strconv.Itoa(c.DB), "want 0 or more")
	}
	if c.PoolSize < 0 || c.PoolSize > maxPoolSize {
		bad("pool_size", strconv.Itoa(c.PoolSize), "want 1 to "+strconv.Itoa(maxPoolSize))
	}
	if c.Wire < 0 {
		bad("wire", strconv.Itoa(c.Wire), "want 1 or more")
	}
	if c.Timeout < 0 {
		bad("timeout", c.Timeout.String(), "want more than 0")
	}
	if c.Dial < 0 {
		bad("dial", c.Dial.String(), "want more than 0")
	}
	switch {
	case c.Credentials != nil && (c.Username != "" || c.Password != ""):
		bad("credentials", "", "want either them or username and password")
	case c.Credentials == nil && c.Username != "" && c.Password == "":
		bad("password", "", "is missing for the username")
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if c.Wire == 0 {
		c.Wire = defaultWire
	}
	if c.PoolSize == 0 {
		c.PoolSize = defaultPoolSize
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Dial == 0 {
		c.Dial = c.Timeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Credentials != nil {
		c.Credentials = (&credentials{source: c.Credentials, log: c.Logger}).get
	}
	return c
}
