package redisstore_test

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// estate is real servers of one topology that speak TLS, which every connection of its
// stores uses, and have a user tierlock besides; a test's own questions go without.
type estate struct {
	name      string
	cfg       redisstore.Config // addresses, topology, TLS
	nodes     []*servers.RedisServer
	sentinels []string
	cluster   *servers.RedisCluster // nil: none

	needed []string // rights without which there is no lock
	useful []string // rights that docs/redis-acl.md lists besides
}

// estates are the topologies by name; each starts its servers when it is asked for.
var estates = map[string]func(t *testing.T) *estate{
	"one server": func(t *testing.T) *estate {
		own := newAuthority(t)
		server := servers.SecureRedis(t, own.files(t, own.issue(t, "server")))
		return &estate{
			name: "redis-server " + version(t, server.Addr()), cfg: redisstore.Config{Addrs: []string{server.TLSAddr()}, TLS: own.client(t)},
			nodes: []*servers.RedisServer{server}, needed: neededCommands, useful: usefulCommands,
		}
	},
	"sentinels": func(t *testing.T) *estate {
		own := newAuthority(t)
		w := servers.SecureSentinels(t, own.files(t, own.issue(t, "server")), 0) // nobody to promote while the suite hangs
		e := &estate{
			name: "redis-server " + version(t, w.Nodes[0].Addr()) + " behind 3 sentinels", nodes: w.Nodes, sentinels: w.Addrs(),
			cfg: redisstore.Config{
				Addrs: w.TLSAddrs(), TLS: own.client(t),
				Sentinel: &redisstore.SentinelConfig{Master: w.Name, Username: "tierlock", Password: "secret"},
			},
			needed: neededCommands, useful: usefulCommands,
		}
		for _, addr := range e.sentinels {
			enroll(t, addr, sentinelRights)
		}
		return e
	},
	"cluster": func(t *testing.T) *estate {
		own := newAuthority(t)
		c := servers.SecureCluster(t, own.files(t, own.issue(t, "server")), 3, 0, "--cluster-node-timeout", "15000") // longer than the suite hangs
		e := &estate{
			name: "redis-server " + version(t, c.Addrs()[0]) + " as a Cluster of 3", cluster: c,
			cfg:    redisstore.Config{Cluster: true, TLS: own.client(t)},
			needed: slices.Concat(neededCommands, clusterNeeded),
			useful: slices.Concat(usefulCommands, clusterUseful),
		}
		for _, shard := range c.Shards {
			e.nodes = append(e.nodes, shard[0])
		}
		e.cfg.Addrs = []string{e.nodes[0].TLSAddr()}
		return e
	},
}

// everywhere runs test on each topology.
func everywhere(t *testing.T, test func(*testing.T, *estate)) {
	for name, begin := range estates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := begin(t)
			e.cfg.Dial = 2 * time.Second // a handshake takes long on a busy machine
			test(t, e)
		})
	}
}

// as makes the user tierlock anew on every server, with these rights and the documented
// keys, and a Store that is it.
func (e *estate) as(t *testing.T, rights []string) *redisstore.Store {
	t.Helper()
	return e.asWithKeys(t, rights, neededKeys)
}

func (e *estate) asWithKeys(t *testing.T, rights, keys []string) *redisstore.Store {
	t.Helper()
	for _, n := range e.nodes {
		enroll(t, n.Addr(), slices.Concat(rights, keys))
	}
	cfg := e.cfg
	cfg.Username, cfg.Password = "tierlock", "secret"
	return open(t, cfg)
}

// addrs are where a test asks each server without TLS.
func (e *estate) addrs() (all []string) {
	for _, n := range e.nodes {
		all = append(all, n.Addr())
	}
	return all
}

// hang freezes every server that grants.
func (e *estate) hang(*testing.T) (resume func()) {
	for _, n := range e.nodes {
		n.Freeze()
	}
	return func() {
		for _, n := range e.nodes {
			n.Thaw()
		}
	}
}

// files writes what servers need to show cert, and to believe a alone.
func (a *authority) files(t *testing.T, cert tls.Certificate) servers.TLS {
	t.Helper()
	dir := t.TempDir()
	f := servers.TLS{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, f.CA, "CERTIFICATE", a.cert.Raw)
	writePEM(t, f.Cert, "CERTIFICATE", cert.Certificate[0])
	writePEM(t, f.Key, "PRIVATE KEY", key)
	return f
}
