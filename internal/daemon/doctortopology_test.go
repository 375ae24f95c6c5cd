package daemon

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock/internal/servers"
)

// order has a server do something.
func order(t *testing.T, s *servers.RedisServer, args ...any) string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = c.Close() }()
	said, err := c.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return fmt.Sprint(said)
}

// storeFile is a configuration with one store.
func storeFile(t *testing.T, more string, addrs ...string) string {
	t.Helper()
	return fmt.Sprintf("instance: shop-1\nstores: {main: {kind: redis, addrs: [%s]%s}}\naudit: {dir: %q}\n",
		strings.Join(addrs, ", "), more, t.TempDir()) + doctorChains
}

// wantNoCheck fails if a group has a check that begins so.
func wantNoCheck(t *testing.T, found []checkup, group, begins string) {
	t.Helper()
	for _, s := range of(found, group) {
		if strings.HasPrefix(s, begins) {
			t.Errorf("%s: %s", group, s)
		}
	}
}

func TestDoctorOnACluster(t *testing.T) {
	t.Parallel()
	const main = "store main"
	c := servers.Cluster(t, 3, 1, "--cluster-node-timeout", "60000", "--cluster-replica-no-failover", "yes") // nobody takes over
	seed, second, third := c.Shards[0][0], c.Shards[1], c.Shards[2]
	const cluster = ", cluster: true"
	look := func(text string, args ...string) []checkup {
		t.Helper()
		d, _, _, _ := diagnosed(t, text, append(args, "--output", "json")...)
		return d.Checks
	}

	found := look(storeFile(t, cluster, seed.Addr()))
	wantNoFault(t, found, main)
	for _, shard := range c.Shards {
		wantCheck(t, found, main, "ok rights:", shard[0].Addr())
		wantCheck(t, found, main, "ok reach: replica", shard[1].Addr())
	}
	wantCheck(t, look(storeFile(t, "", seed.Addr())), main, "fail role:", "is a server of a Cluster")
	wantCheck(t, look(storeFile(t, "", third[1].Addr())), main, "fail role:", "is a replica")
	gone := nobody(t)
	found = look(storeFile(t, cluster, seed.Addr(), gone))
	wantCheck(t, found, main, "warn addrs:", gone)
	wantNoCheck(t, found, main, "fail")

	// One master evicts, and one server of another shard has a user with fewer rights.
	order(t, second[0], "config", "set", "maxmemory", "64mb")
	order(t, second[0], "config", "set", "maxmemory-policy", "allkeys-lru")
	order(t, third[1], "config", "set", "maxmemory-policy", "volatile-lru")
	for _, shard := range c.Shards {
		for _, s := range shard {
			order(t, s, "acl", "setuser", "tierlock", "on", ">secret", "~biz:*", "~{biz:*", "~tierlock:probe:*", "~{tierlock:probe:*", "&*", "+@all")
		}
	}
	order(t, third[0], "acl", "setuser", "tierlock", "-set", "-asking", "-cluster|info")
	order(t, second[1], "acl", "deluser", "tierlock")
	asUser := cluster + ", functions: true, username: tierlock, password_file: " + write(t, "secret\n")
	if code, stdout, stderr := command(t, functionsIn(t), "load", "--redis", seed.Addr(), "--cluster"); code != ExitOK {
		t.Fatalf("code %d, %s%s", code, stdout, stderr)
	}
	order(t, second[0], "function", "flush")
	found = look(storeFile(t, asUser, seed.Addr()))
	wantCheck(t, found, main, "fail eviction:", second[0].Addr()+": allkeys-lru")
	wantCheck(t, found, main, "ok eviction:", seed.Addr())
	wantCheck(t, found, main, "warn eviction: replica "+third[1].Addr(), "volatile-lru")
	wantCheck(t, found, main, "fail rights:", third[0].Addr()+" denies set")
	wantCheck(t, found, main, "warn rights:", third[0].Addr()+" denies asking, cluster|info")
	wantCheck(t, found, main, "warn reach: replica "+second[1].Addr(), "WRONGPASS")
	wantCheck(t, found, main, "warn functions:", second[0].Addr()+" has none")
	wantCheck(t, found, main, "ok functions:", seed.Addr())
	wantNoCheck(t, found, main, "warn functions: "+seed.Addr())
	wantNoCheck(t, found, main, "fail rights: "+seed.Addr())

	// A replica hangs, then its master, too; nothing hides what there is to tell of the others.
	second[1].Freeze()
	long := regexp.MustCompile(`lag=([3-9]|[1-9][0-9])`)
	for begin := time.Now(); !long.MatchString(order(t, second[0], "info", "replication")); <-time.After(50 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the replica that is frozen is never behind")
		}
	}
	found = look(storeFile(t, cluster, seed.Addr()))
	wantCheck(t, found, main, "warn replicas:", "replica "+second[1].Addr()+" has been silent for")
	wantCheck(t, found, main, "warn reach: replica "+second[1].Addr(), "")
	wantCheck(t, found, main, "warn eviction: replica "+third[1].Addr(), "")
	third[0].Freeze()
	c.Shards[0][1].Kill()
	found = look(storeFile(t, cluster, seed.Addr()), "--timeout", "5s")
	wantCheck(t, found, main, "fail reach: "+third[0].Addr(), "")
	wantCheck(t, found, main, "ok rights: "+seed.Addr(), "")
	wantCheck(t, found, main, "fail eviction: "+second[0].Addr(), "")
	wantCheck(t, found, main, "warn memory: "+seed.Addr(), "no replica")
	third[0].Thaw()
	second[1].Thaw()

	// A shard that is dead is told by its own address, a dead seed by what it was asked for.
	seed.Kill()
	found = look(storeFile(t, cluster, second[0].Addr()))
	wantCheck(t, found, main, "fail reach: "+seed.Addr(), "refused")
	wantCheck(t, found, main, "ok rights: "+second[0].Addr(), "")
	wantCheck(t, look(storeFile(t, cluster, seed.Addr())), main, "fail reach:", "refused")
}

func TestDoctorBehindSentinels(t *testing.T) {
	t.Parallel()
	const main = "store main"
	w := servers.Sentinels(t, 2)
	master, replica := w.Nodes[0], w.Nodes[1]
	behind := fmt.Sprintf(", sentinel: {master: %s}", w.Name)
	look := func(text string) []checkup {
		t.Helper()
		d, _, _, _ := diagnosed(t, text, "--output", "json")
		return d.Checks
	}

	found := look(storeFile(t, behind, w.Addrs()...))
	wantNoFault(t, found, main)
	wantCheck(t, found, main, "ok rights: "+master.Addr(), "")
	wantCheck(t, found, main, "ok reach: replica "+replica.Addr(), "")

	d, _, _, _ := diagnosed(t, storeFile(t, ", sentinel: {master: nobody}", w.Addrs()...), "--output", "json")
	wantCheck(t, d.Checks, main, "fail reach:", "no such master")
	for _, c := range d.Checks {
		if c.Check == "reach" && (!strings.Contains(c.Remedy, "sentinel.master") || strings.Contains(c.Found, "\n")) {
			t.Errorf("%+v", c)
		}
	}
	wantCheck(t, look(storeFile(t, "", replica.Addr())), main, "fail role:", "is a replica")

	order(t, replica, "config", "set", "maxmemory-policy", "allkeys-lru")
	wantCheck(t, look(storeFile(t, behind, w.Addrs()...)), main, "warn eviction: replica "+replica.Addr(), "")
	order(t, replica, "config", "set", "maxmemory-policy", "noeviction")

	w.Sentinels[2].Kill()
	found = look(storeFile(t, behind, w.Addrs()...))
	wantCheck(t, found, main, "warn addrs:", w.Sentinels[2].Addr())
	wantNoCheck(t, found, main, "fail")
	w.Sentinels[1].Kill()
	for begin := time.Now(); ; <-time.After(100 * time.Millisecond) { // a sentinel counts another as gone after a while
		found = look(storeFile(t, behind, w.Sentinels[0].Addr()))
		if strings.Contains(strings.Join(of(found, main), "\n"), "NOQUORUM") {
			break
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("two of three sentinels are gone, and nothing is said:\n%s", strings.Join(of(found, main), "\n"))
		}
	}
	wantCheck(t, found, main, "warn addrs:", "NOQUORUM")
}
