package servers

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisServer is one real redis-server.
type RedisServer struct {
	Process
	addr string
	tls  string // its address for TLS; empty without
	bus  int    // port of the Cluster's own talk
}

// Addr is "127.0.0.1:port", the same after Restart.
func (s *RedisServer) Addr() string { return s.addr }

// Redis starts redis-server without persistence. args are further options, each as on its
// command line ("--appendonly", "yes"), and win over the defaults.
func Redis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	Need(tb, "redis-server")
	return redis(tb, nil, args)
}

func redis(tb testing.TB, files *TLS, args []string, env ...string) *RedisServer {
	tb.Helper()
	path := look(tb, "redis-server")
	port, release := freePorts(tb, 1, tlsOffset)
	addr, dir := loopback(port), newFolder(tb, "redis", nil)
	own := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--cluster-port", strconv.Itoa(port + 1),
		"--save", "", "--appendonly", "no", "--dir", dir.path,
	}
	s := &RedisServer{addr: addr, bus: port + 1}
	if files != nil {
		s.tls = loopback(port + tlsOffset)
		for _, o := range files.options(port + tlsOffset) {
			own = append(own, "--"+o[0], o[1])
		}
	}
	s.Process = launch(tb, command{
		name:  "redis",
		path:  path,
		args:  append(own, args...),
		env:   env,
		ready: func(pid int) (string, error) { return redisReady(addr, pid) },
	}, dir, release)
	return s
}

// redisReady asks for a PONG and for INFO, and whether it is our child that answers.
func redisReady(addr string, pid int) (version string, err error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\nINFO server\r\n")); err != nil {
		return "", err
	}
	info := map[string]string{}
	for in := bufio.NewScanner(conn); in.Scan(); {
		line := in.Text()
		if len(info) == 0 && line != "+PONG" {
			return "", fmt.Errorf("PING: %s", line) // -LOADING, for one
		}
		name, value, _ := strings.Cut(line, ":")
		info[name] = value
		if name == "process_id" && value != strconv.Itoa(pid) {
			return "", fmt.Errorf("%s is served by process %s, not by ours, %d", addr, value, pid)
		}
		if info["process_id"] != "" && info["redis_version"] != "" {
			return info["redis_version"], nil
		}
	}
	return "", fmt.Errorf("%s closed the connection", addr)
}
