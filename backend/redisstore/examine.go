package redisstore

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Examination is what one Redis server tells of itself, as far as a lock depends on it.
type Examination struct {
	Addr string
	Copy bool  // a replica of one that grants: what is wrong with it is wrong after a failover
	Err  error // it did not answer; nothing else is known then

	Version    string // "7.0.15"; empty, as are the fields below, where INFO is denied
	Master     bool   // else it grants nothing
	Cluster    bool   // it is a member of one
	Eviction   string // maxmemory-policy: all but noeviction drop locks that are held
	MaxMemory  int64  // bytes; zero: no limit
	Persistent bool   // its log of writes is on, so that a restart keeps locks
	Replicas   []Replica

	Took        time.Duration // the quickest of a few round trips
	ClockKnown  bool
	ClockOffset time.Duration // how far its clock is ahead of this process's
	ClockError  time.Duration // bound of that, either side

	RightsKnown bool     // else it could not be asked which rights the user lacks
	Denied      []string // commands and keys that the user lacks, as docs/redis-acl.md names them; sorted
}

// Replica is a copy of a master, as that one tells.
type Replica struct {
	Addr   string
	State  string        // online, or how far its first copy is: wait_bgsave, send_bulk
	Silent time.Duration // since it last said how far it is, in whole seconds
}

// Examine asks each server that grants what it is, and, behind sentinels and in a Cluster,
// each that would after a failover: Redis copies keys to replicas, not users, settings or
// clocks. It changes nothing on any: rights are tried inside a script that the server lets
// write nothing. prefix is that of the keys. A server that cannot be asked has an Err; the
// error itself is for what concerns all of them.
func (s *Store) Examine(ctx context.Context, prefix string) ([]Examination, error) {
	q, err := s.question(ctx)
	if err != nil {
		return nil, err
	}
	defer q.end()
	masters, err := s.masters(q.context())
	if err != nil {
		return nil, err
	}
	found := each(masters, func(n *node) Examination { return n.examine(q.context(), prefix) })
	if !s.cfg.Cluster && s.cfg.Sentinel == nil {
		return found, nil
	}
	var copies []string
	for _, x := range found {
		for _, r := range x.Replicas {
			copies = append(copies, r.Addr)
		}
	}
	return append(found, each(copies, func(addr string) Examination {
		cfg := s.cfg
		cfg.Sentinel = nil // behind sentinels connections to replicas are refused
		n := newNode(&cfg, addr)
		defer func() { _ = n.close() }()
		x := n.examine(q.context(), prefix)
		x.Copy = true
		return x
	})...), nil
}

// masters are the servers that grant; in a Cluster they must be found out first.
func (s *Store) masters(ctx context.Context) ([]*node, error) {
	if _, err := s.servers.probes(ctx, ""); err != nil {
		return nil, err
	}
	return s.servers.serving(""), nil
}

// each asks all at once, so that one that hangs holds up no other.
func each[T, R any](all []T, ask func(T) R) []R {
	answers := make([]R, len(all))
	var asked sync.WaitGroup
	for i, one := range all {
		asked.Go(func() { answers[i] = ask(one) })
	}
	asked.Wait()
	return answers
}

func (n *node) examine(ctx context.Context, prefix string) Examination {
	x := Examination{Addr: n.addr}
	if x.Err = n.examineClock(ctx, &x); x.Err != nil {
		return x
	}
	refuse := func(err error, right string) {
		if denied(err) && !slices.Contains(x.Denied, right) {
			x.Denied = append(x.Denied, right)
		}
	}
	info, err := n.control.Info(ctx).Result()
	refuse(err, "info")
	if err == nil {
		x.Version, x.Eviction = infoField(info, "redis_version"), infoField(info, "maxmemory_policy")
		x.MaxMemory, _ = strconv.ParseInt(infoField(info, "maxmemory"), 10, 64)
		x.Persistent = infoField(info, "aof_enabled") == "1"
		x.Master, x.Cluster = infoField(info, "role") == "master", infoField(info, "cluster_enabled") == "1"
		x.Replicas = replicasIn(info)
	}
	n.examineRights(ctx, &x, prefix, refuse)
	slices.Sort(x.Denied)
	return x
}

// replicasIn are those of INFO, "slave0:ip=10.0.0.2,port=6379,state=online,offset=28,lag=1".
func replicasIn(info string) (all []Replica) {
	for i := 0; ; i++ {
		line := infoField(info, "slave"+strconv.Itoa(i))
		if line == "" {
			return all
		}
		said := map[string]string{}
		for pair := range strings.SplitSeq(line, ",") {
			field, value, _ := strings.Cut(pair, "=")
			said[field] = value
		}
		lag, _ := strconv.Atoi(said["lag"])
		all = append(all, Replica{
			Addr: net.JoinHostPort(said["ip"], said["port"]), State: said["state"], Silent: time.Duration(max(0, lag)) * time.Second,
		})
	}
}

// clockSamples is how often the clock is asked for; the quickest answer bounds it best.
const clockSamples = 5

// examineClock is the first question: a server that does not answer it is not there.
func (n *node) examineClock(ctx context.Context, x *Examination) error {
	for range clockSamples {
		sent := time.Now()
		server, err := n.control.Time(ctx).Result()
		took := time.Since(sent)
		switch {
		case denied(err):
			x.Denied = append(x.Denied, "time")
			return nil
		case err != nil:
			return err
		}
		if !x.ClockKnown || took < x.Took {
			x.ClockKnown, x.Took = true, took
			x.ClockOffset, x.ClockError = server.Sub(sent)-took/2, took/2
		}
	}
	return nil
}

// rightsScript tries each command of the store's scripts. A server checks the user's
// rights before it looks whether the script may write, which this one may not: so what is
// refused for want of a right is told from what is refused for writing, and nothing is
// written. It answers which were refused. Of a plain lock it tries no record beside it.
const rightsScript = `#!lua flags=no-writes
local refused = {}
local function try(command, ...)
  local r = redis.pcall(command, ...)
  local said = type(r) == 'table' and r.err or ''
  if string.find(said, 'ACL failure in script', 1, true) or string.find(said, 'The user executing the script', 1, true) then
    refused[#refused + 1] = command
  end -- the words of 7.2 and of 7.0
end
local key = ARGV[1]
try('time')
try('get', key)
try('pttl', key)
try('set', key, 'x')
try('pexpire', key, '1')
try('del', key)
try('mget', key)
try('exists', key)
try('ping')
if ARGV[2] == 'plain' then
  return refused
end
local beside = '{' .. key .. '}:'
try('hget', beside .. 'depth', 'x')
try('hlen', beside .. 'depth')
try('hset', beside .. 'depth', 'x', '1')
try('hdel', beside .. 'depth', 'x')
try('zadd', beside .. 'wait', '1', 'x')
try('zrem', beside .. 'wait', 'x')
try('zpopmin', beside .. 'wait')
try('publish', 'tierlock:inbox:doctor', '')
return refused
`

// examineRights asks for the locks' own keys and for those of probes.
func (n *node) examineRights(ctx context.Context, x *Examination, prefix string, refuse func(error, string)) {
	if !n.functions.wanted {
		refuse(n.control.EvalSha(ctx, strings.Repeat("0", 40), nil).Err(), "evalsha")
		refuse(n.control.ScriptLoad(ctx, acquireScript.source).Err(), "script|load")
	}
	if n.cfg.Cluster {
		var asking, info *redis.Cmd
		_, _ = n.control.Pipelined(ctx, func(p redis.Pipeliner) error { // ASKING is for the next command alone
			asking, info = p.Do(ctx, "asking"), p.Do(ctx, "cluster", "info")
			return nil
		})
		refuse(asking.Err(), "asking")
		refuse(info.Err(), "cluster|info")
	}
	inbox := n.control.Subscribe(ctx, "tierlock:inbox:doctor")
	_, err := inbox.Receive(ctx)
	refuse(err, "subscribe")
	_ = inbox.Close()

	locks, err := n.refused(ctx, prefix+":doctor:lock:rights", "")
	if denied(err) && !n.functions.wanted {
		refuse(err, "eval")
	}
	if err != nil {
		return
	}
	probes, err := n.refused(ctx, "tierlock:probe:doctor", "plain") // nobody enters it, or waits for it
	if err != nil {
		return
	}
	x.RightsKnown = true
	x.Denied = append(x.Denied, locks...)
	if len(locks) == 0 && len(probes) > 0 { // commands it has, but not for these keys
		x.Denied = append(x.Denied, "~tierlock:probe:*")
	}
	slices.Sort(x.Denied)
	x.Denied = slices.Compact(x.Denied)
}

func (n *node) refused(ctx context.Context, key, how string) ([]string, error) {
	return n.control.Eval(ctx, rightsScript, nil, key, how).StringSlice()
}

// denied tells whether the server refused for want of a right.
func denied(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOPERM ")
}
