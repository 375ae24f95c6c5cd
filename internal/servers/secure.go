package servers

import (
	"net"
	"strconv"
	"testing"
)

// TLS names the files, in PEM, of servers that speak TLS: who is believed, and one
// certificate with its key that all of them show, to clients as to each other.
type TLS struct{ CA, Cert, Key string }

// options are those of a redis-server, or the lines of a sentinel's file.
func (f *TLS) options(port int) [][2]string {
	return [][2]string{
		{"tls-port", strconv.Itoa(port)},
		{"tls-ca-cert-file", f.CA},
		{"tls-cert-file", f.Cert},
		{"tls-key-file", f.Key},
		{"tls-auth-clients", "yes"},
		{"tls-replication", "yes"},
	}
}

// tlsOffset is where, from a server's port, its port for TLS lies.
const tlsOffset = 2

// TLSAddr is "127.0.0.1:port" where a secure server speaks TLS, the same after Restart.
func (s *RedisServer) TLSAddr() string { return s.tls }

// TLSAddr is [RedisServer.TLSAddr] of a sentinel.
func (s *SentinelServer) TLSAddr() string { return s.tls }

// SecureRedis is [Redis] on a second port, where it speaks TLS with those who show a
// certificate of files.CA. Its Addr stays open to all, for a test's own questions.
func SecureRedis(tb testing.TB, files TLS, args ...string) *RedisServer {
	tb.Helper()
	Need(tb, "redis-server")
	return redis(tb, &files, args)
}

// SecureSentinels is [Sentinels] whose servers speak TLS to each other, and which tell the
// address for TLS. Behind each Addr is no TLS.
func SecureSentinels(tb testing.TB, files TLS, replicas int) *Watched {
	tb.Helper()
	return sentinels(tb, &files, replicas)
}

// TLSAddrs are the sentinels' own for TLS.
func (w *Watched) TLSAddrs() []string {
	var all []string
	for _, s := range w.Sentinels {
		all = append(all, s.tls)
	}
	return all
}

// SecureCluster is [Cluster] whose servers speak TLS to each other, and tell those who
// speak it the addresses for TLS. Behind each Addr is no TLS.
func SecureCluster(tb testing.TB, files TLS, shards, replicas int, args ...string) *RedisCluster {
	tb.Helper()
	return cluster(tb, &files, shards, replicas, append([]string{"--tls-cluster", "yes"}, args...))
}

// told is the address that others are to know of a server.
func (s *RedisServer) told() (host, port string) {
	addr := s.addr
	if s.tls != "" {
		addr = s.tls
	}
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}
