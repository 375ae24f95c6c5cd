package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/degrade"
)

// oldestRedis is the oldest version that the store is made for: Functions are of 7.0.
var oldestRedis = [2]int{7, 0}

// mildRights are those without which the lock works worse, as docs/redis-acl.md tells;
// without any other it does not work.
var mildRights = []string{"script|load", "info", "ping", "mget", "exists", "subscribe", "publish", "zadd", "zrem", "zpopmin", "asking", "cluster|info"}

const (
	farClock = 500 * time.Millisecond // reconcile's own guess at clocks; fencing and reports read them
	lostHour = time.Minute            // beyond it, whole reports are about another time
	// longSilent is how long a replica, which speaks each second, has not said how far it is.
	longSilent = 3 * time.Second
)

func (c *Config) doctorStore(ctx context.Context, e *examiner, name string) {
	s := c.Stores[name]
	conf, err := s.redis(slog.New(slog.DiscardHandler))
	if err != nil {
		e.fail("open", "see docs/config.md", "%v", err)
		return
	}
	// Long enough to tell a far server from none; and masters, replicas, addresses and
	// functions are asked one after the other, and may all have one that hangs.
	span := groupTimeout
	if end, ok := ctx.Deadline(); ok {
		span = time.Until(end)
	}
	conf.Dial = max(span/5, time.Millisecond)
	conf.Timeout = conf.Dial
	store, err := redisstore.New(conf)
	if err != nil {
		e.fail("open", "see docs/config.md", "%v", err)
		return
	}
	defer func() { _ = store.Close() }()
	found, err := store.Examine(ctx, or(c.Prefix, "biz"))
	if err != nil {
		e.fail("reach", reachRemedy(s, err), "%s: %s", strings.Join(s.Addrs, ", "), oneLine(err))
		return
	}
	judgeWitnesses(ctx, e, store)
	for i := range found {
		if found[i].Copy {
			c.judgeReplica(e, name, &found[i])
			continue
		}
		c.judgeRedis(e, name, &found[i])
	}
	if s.Functions {
		judgeFunctions(ctx, e, store)
	}
	c.judgeKeys(ctx, e, store, span/4)
}

// reachRemedy is what to do about a server, or all of them, that cannot be asked.
func reachRemedy(s StoreConfig, err error) string {
	what := "look whether Redis runs there and whether this host may reach it"
	switch text := err.Error(); {
	case strings.Contains(text, "no such master"):
		return "sentinel.master is the name under which they watch it: SENTINEL MASTERS lists the names"
	case strings.Contains(text, "cluster support disabled"):
		return "take out cluster: true, or give the address of a server of the Cluster"
	}
	if s.Username != "" || s.Password != (Secret{}) {
		what += "; user and password, see docs/redis-acl.md"
	}
	return what
}

// judgeWitnesses looks at the addresses of the file where one that answers is enough.
func judgeWitnesses(ctx context.Context, e *examiner, store *redisstore.Store) {
	witnesses, err := store.Witnesses(ctx)
	if err != nil {
		e.warn("addrs", "see docs/config.md", "%v", err)
		return
	}
	for _, w := range witnesses {
		if w.Err != nil {
			e.warn("addrs", "mend it, or put another into addrs: without one that answers nobody tells who the master is", "%s", oneLine(w.Err))
		}
	}
}

// judgeReplica judges one that grants nothing till a failover: what is wrong with it is no
// fault so far.
func (c *Config) judgeReplica(e *examiner, name string, x *redisstore.Examination) {
	of := examiner{group: e.group}
	c.judgeRedis(&of, name, x)
	well := true
	for _, check := range of.found {
		if check.Grade == gradeOK {
			continue
		}
		well = false
		e.warn(check.Check, check.Remedy, "replica %s", check.Found)
	}
	if well {
		e.ok("reach", "replica %s answers and could take over", x.Addr)
	}
}

// judgeRedis judges one server.
func (c *Config) judgeRedis(e *examiner, name string, x *redisstore.Examination) {
	if x.Err != nil {
		e.fail("reach", reachRemedy(c.Stores[name], x.Err), "%s: %v", x.Addr, x.Err)
		return
	}
	attempt := c.shortestAttempt(name)
	if attempt > 0 && x.Took > attempt/2 {
		e.warn("reach", "run it nearer, or raise attempt", "%s answers in %v at best, and an attempt has %v", x.Addr, x.Took.Round(time.Microsecond), attempt)
	} else {
		e.ok("reach", "%s answers in %v", x.Addr, x.Took.Round(time.Microsecond))
	}
	judgeVersion(e, x)
	judgeRole(e, x, c.Stores[name])
	judgeCopies(e, x)
	judgeMemory(e, x, c.strongOn(name))
	judgeClock(e, x)
	judgeRights(e, x)
}

// judgeRole looks whether the server is what the file takes it for.
func judgeRole(e *examiner, x *redisstore.Examination, s StoreConfig) {
	if x.Version == "" {
		return // INFO is denied
	}
	if x.Cluster && !s.Cluster {
		e.fail("role", "cluster: true", "%s is a server of a Cluster: it refuses every key whose slot is another's", x.Addr)
	}
	if !x.Master && !x.Copy {
		e.fail("role", "give the master's address, or sentinel or cluster, which find it", "%s is a replica: it grants nothing", x.Addr)
	}
}

// judgeCopies looks at copies that would lack locks after a failover.
func judgeCopies(e *examiner, x *redisstore.Examination) {
	const remedy = "look at that server and at the way to it"
	for _, r := range x.Replicas {
		switch {
		case r.State != "online":
			e.warn("replicas", remedy, "%s: replica %s has no whole copy yet (%s)", x.Addr, r.Addr, r.State)
		case r.Silent >= longSilent:
			e.warn("replicas", remedy, "%s: replica %s has been silent for %v: a failover to it loses what came since", x.Addr, r.Addr, r.Silent)
		}
	}
}

// shortestAttempt is that of the chains on a store; zero: none is.
func (c *Config) shortestAttempt(store string) (least time.Duration) {
	for _, p := range c.Chains {
		if (p.Store == store || p.Store == "") && (least == 0 || p.Attempt < least) {
			least = p.Attempt
		}
	}
	return least
}

func (c *Config) strongOn(store string) bool {
	for _, p := range c.Chains {
		if (p.Store == store || p.Store == "") && p.Ladder.Class == degrade.ClassStrong {
			return true
		}
	}
	return false
}

func judgeVersion(e *examiner, x *redisstore.Examination) {
	major, minor, known := version(x.Version)
	switch {
	case !known:
		e.warn("version", "grant +info", "%s does not tell: what follows from INFO is not known either", x.Addr)
	case major < oldestRedis[0] || major == oldestRedis[0] && minor < oldestRedis[1]:
		e.fail("version", "run Redis 7.0 or later", "%s is Redis %s", x.Addr, x.Version)
	default:
		e.ok("version", "%s is Redis %s", x.Addr, x.Version)
	}
}

func version(text string) (major, minor int, ok bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, errors.Join(err1, err2) == nil
}

// judgeMemory looks at what makes a server forget a lock that is held.
func judgeMemory(e *examiner, x *redisstore.Examination, strong bool) {
	if x.Version == "" {
		return // INFO is denied
	}
	const remedy = "CONFIG SET maxmemory-policy noeviction, and keep caches on another server"
	switch {
	case x.Eviction == "noeviction":
		e.ok("eviction", "%s: noeviction", x.Addr)
	case x.MaxMemory == 0:
		e.warn("eviction", remedy, "%s: %s, without a maxmemory so far: the day it gets one it drops locks that are held", x.Addr, x.Eviction)
	default:
		e.fail("eviction", remedy, "%s: %s with %d MiB: under pressure it drops locks that are held", x.Addr, x.Eviction, x.MaxMemory>>20)
	}
	if strong && !x.Copy && !x.Persistent && len(x.Replicas) == 0 {
		e.warn("memory", "turn on appendonly; until then the resource must compare tokens (fencing), or the chain wait out a restart (lock_delay)",
			"%s keeps nothing over a restart and has no replica, and a strong chain is on it", x.Addr)
	}
}

func judgeClock(e *examiner, x *redisstore.Examination) {
	if !x.ClockKnown {
		return // TIME is denied; the rights tell
	}
	off := x.ClockOffset.Round(100 * time.Microsecond)
	bound := x.ClockError.Round(100 * time.Microsecond)
	switch least := x.ClockOffset.Abs() - x.ClockError; {
	case least > lostHour:
		e.fail("clock", "run a time service on both hosts", "%s is %v ahead of this host, give or take %v: tokens and reports would tell another time", x.Addr, off, bound)
	case least > farClock:
		e.warn("clock", "run a time service on both hosts", "%s is %v ahead of this host, give or take %v: overlaps across hosts would be possible, never certain", x.Addr, off, bound)
	default:
		e.ok("clock", "%s is %v ahead of this host, give or take %v", x.Addr, off, bound)
	}
}

func judgeRights(e *examiner, x *redisstore.Examination) {
	var grave, mild []string
	for _, right := range x.Denied {
		switch {
		case slices.Contains(mildRights, right):
			mild = append(mild, right)
		default:
			grave = append(grave, right)
		}
	}
	grants := func(rights []string) string {
		words := make([]string, len(rights))
		for i, r := range rights {
			words[i] = "+" + r
			if strings.HasPrefix(r, "~") {
				words[i] = r
			}
		}
		return "ACL SETUSER … " + strings.Join(words, " ") + ", see docs/redis-acl.md"
	}
	if len(grave) > 0 {
		e.fail("rights", grants(grave), "%s denies %s: no lock can be had", x.Addr, strings.Join(grave, ", "))
	}
	if len(mild) > 0 {
		e.warn("rights", grants(mild), "%s denies %s: it works without, and worse", x.Addr, strings.Join(mild, ", "))
	}
	switch {
	case len(grave)+len(mild) > 0:
	case x.RightsKnown:
		e.ok("rights", "%s: the user has what the store needs", x.Addr)
	default:
		e.ok("rights", "%s: not asked, since that takes a script and Redis 7", x.Addr)
	}
}

// judgeFunctions looks whether the lock's functions are there where they are wanted.
func judgeFunctions(ctx context.Context, e *examiner, store *redisstore.Store) {
	const remedy = "tierlock functions load -c FILE; until then scripts are run"
	states, err := store.Libraries(ctx)
	if err != nil {
		e.warn("functions", remedy, "what is there cannot be told: %v", err)
		return
	}
	for _, s := range states {
		switch {
		case s.Err != nil:
			e.warn("functions", "grant +function|list, or look with a user that has it", "%s: what is there cannot be told: %v", s.Addr, s.Err)
		case s.Current:
			e.ok("functions", "%s has those of this release", s.Addr)
		case s.Version == 0:
			e.warn("functions", remedy, "%s has none", s.Addr)
		default:
			e.warn("functions", remedy, "%s has those of version %d, this is %d", s.Addr, s.Version, redisstore.LibraryVersion)
		}
	}
}
