package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// server is a redis-server of our own, without persistence.
type server struct {
	addr string
	cmd  *exec.Cmd
	dir  string
	gone chan struct{}
}

// startRedis returns once the server answers. It ends with ctx, or by stop.
func startRedis(ctx context.Context) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w: install it, or name a Redis by --redis", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tierlock-bench-redis-")
	if err != nil {
		return nil, err
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir, gone: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", dir)
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		defer close(s.gone)
		_ = s.cmd.Wait() // a killed server's status says nothing
	}()
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// await asks until the server answers.
func (s *server) await(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := goRedis(s.addr, 1)
	defer func() { _ = client.Close() }()
	for {
		err := client.Ping(limited).Err()
		if err == nil {
			return nil
		}
		select {
		case <-s.gone:
			return errors.New("redis-server ended before it answered")
		case <-limited.Done():
			return fmt.Errorf("redis-server does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *server) stop() error {
	_ = s.cmd.Process.Kill() // it may be gone already
	<-s.gone
	return os.RemoveAll(s.dir)
}

// freePort is one that nobody listened on a moment ago.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("no port in %v", l.Addr())
	}
	return addr.Port, nil
}
