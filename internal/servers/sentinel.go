package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Watched is one Redis master with replicas, and sentinels that watch it.
type Watched struct {
	Name      string         // of the master among the sentinels
	Nodes     []*RedisServer // the first was the master at the start
	Sentinels []*SentinelServer
}

// SentinelServer is one real redis-sentinel.
type SentinelServer struct {
	Process
	addr string
	tls  string // its address for TLS; empty without
}

// Addr is "127.0.0.1:port", the same after Restart.
func (s *SentinelServer) Addr() string { return s.addr }

// Addrs are the sentinels'.
func (w *Watched) Addrs() []string {
	var all []string
	for _, s := range w.Sentinels {
		all = append(all, s.addr)
	}
	return all
}

// Master is the address of the master as the first sentinel that answers tells it.
func (w *Watched) Master(tb testing.TB) string {
	tb.Helper()
	for _, s := range w.Sentinels {
		if addr, err := masterOf(s.addr, w.Name); err == nil {
			return addr
		}
	}
	tb.Fatal("no sentinel tells the master")
	return ""
}

// sentinelConf takes the port, the folder, the name and the master's port. Two of three must
// agree; a second of silence is down.
const sentinelConf = `port %d
bind 127.0.0.1
dir %s
sentinel monitor %[3]s 127.0.0.1 %[4]s 2
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 3000
sentinel parallel-syncs %[3]s 4
`

// Sentinels starts a master, replicas of it and three sentinels, and returns when these
// know the replicas and each other.
func Sentinels(tb testing.TB, replicas int) *Watched {
	tb.Helper()
	return sentinels(tb, nil, replicas)
}

func sentinels(tb testing.TB, files *TLS, replicas int) *Watched {
	tb.Helper()
	Need(tb, "redis-sentinel")
	w := &Watched{Name: "main", Nodes: []*RedisServer{redis(tb, files, nil)}}
	host, port := w.Nodes[0].told()
	for range replicas {
		w.Nodes = append(w.Nodes, redis(tb, files, []string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"}))
	}
	order(tb, w.Nodes[0].Addr(), "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	for _, n := range w.Nodes[1:] {
		settle(tb, n.Addr(), []string{"INFO", "replication"}, "master_link_status:up")
	}
	for range 3 {
		w.Sentinels = append(w.Sentinels, sentinel(tb, files, w.Name, port))
	}
	for _, s := range w.Sentinels {
		settle(tb, s.addr, []string{"INFO", "sentinel"}, fmt.Sprintf("status=ok,address=%s:%s,slaves=%d,sentinels=3", host, port, replicas))
	}
	return w
}

func sentinel(tb testing.TB, files *TLS, name, master string) *SentinelServer {
	tb.Helper()
	path := look(tb, "redis-sentinel")
	port, release := freePorts(tb, tlsOffset)
	addr, dir := loopback(port), newFolder(tb, "sentinel", nil)
	conf := filepath.Join(dir.path, "sentinel.conf") // it writes what it finds out there
	s, text := &SentinelServer{addr: addr}, fmt.Appendf(nil, sentinelConf, port, dir.path, name, master)
	if files != nil {
		s.tls = loopback(port + tlsOffset)
		for _, o := range files.options(port + tlsOffset) {
			text = fmt.Appendf(text, "%s %s\n", o[0], o[1])
		}
	}
	if err := os.WriteFile(conf, text, 0o600); err != nil {
		tb.Fatalf("sentinel: %v", err)
	}
	s.Process = launch(tb, command{
		name:  "sentinel",
		path:  path,
		args:  []string{conf},
		ready: func(pid int) (string, error) { return redisReady(addr, pid) },
	}, dir, release)
	return s
}

// masterOf reads the address in what a sentinel says of its masters.
func masterOf(sentinel, name string) (string, error) {
	info, err := say(sentinel, "INFO", "sentinel")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(info, "name="+name+",")
	_, rest, _ = strings.Cut(rest, "address=")
	addr, _, ok := strings.Cut(rest, ",")
	if !ok {
		return "", fmt.Errorf("%s knows no master %s", sentinel, name)
	}
	return addr, nil
}
