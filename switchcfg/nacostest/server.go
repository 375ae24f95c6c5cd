package nacostest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// grpcOffset is the protocol's: gRPC is at the port of HTTP and this.
const grpcOffset = 1000

// Server is a running server. Its methods may be called from any goroutine; Restart only
// from the test's own, since it may end the test.
type Server struct {
	tb   testing.TB
	port int

	store   store
	faults  faults
	clients clients
	login   login

	mu   sync.Mutex
	grpc *grpc.Server    // guarded by mu; nil while killed
	http *http.Server    // guarded by mu
	done *sync.WaitGroup // guarded by mu; ends when both serve no more

	inside gate // handlers and readers of streams
}

// Start starts an empty server that nobody has to log in to. It ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb}
	s.store.texts = map[id]entry{}
	s.faults.thawed = closedChan()
	s.clients.all = map[uint64]*client{}
	s.inside.empty.L = &s.inside.mu
	for range 100 { // until both ports are free
		if s.port = s.listen(0); s.port != 0 {
			tb.Cleanup(s.Kill)
			return s
		}
	}
	tb.Fatal("nacostest: no two free ports that are 1000 apart")
	return nil
}

// Addr is the address that clients are given, "127.0.0.1:port"; gRPC is at port + 1000.
func (s *Server) Addr() string { return loopback(s.port) }

// Kill ends the server with every connection and returns when it is gone. What it keeps
// stays for Restart.
func (s *Server) Kill() {
	s.mu.Lock()
	grpcServer, httpServer, done := s.grpc, s.http, s.done
	s.grpc, s.http, s.done = nil, nil, nil
	s.mu.Unlock()
	if grpcServer == nil {
		return
	}
	grpcServer.Stop()
	_ = httpServer.Close()
	done.Wait()
	s.inside.wait()
}

// Restart kills the server if it lives and starts it again on the same ports with the same
// configurations. Logins and listens are forgotten.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	s.login.forget()
	for end := time.Now().Add(5 * time.Second); s.listen(s.port) == 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.tb.Fatalf("nacostest: port %d is not free any more", s.port)
		}
	}
}

// listen serves on a port, any if 0, and returns which; 0 if one of the two is taken.
func (s *Server) listen(port int) int {
	var open net.ListenConfig
	web, err := open.Listen(context.Background(), "tcp", loopback(port))
	if err != nil {
		return 0
	}
	port = web.Addr().(*net.TCPAddr).Port
	wire, err := open.Listen(context.Background(), "tcp", loopback(port+grpcOffset))
	if err != nil {
		_ = web.Close()
		return 0
	}
	grpcServer := grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.StatsHandler(&s.clients))
	for _, service := range s.services() {
		grpcServer.RegisterService(&service, s)
	}
	httpServer := &http.Server{Handler: s.pages(), ReadHeaderTimeout: 10 * time.Second}
	done := new(sync.WaitGroup)
	done.Go(func() { s.served(grpcServer.Serve(wire)) })
	done.Go(func() { s.served(httpServer.Serve(web)) })
	s.mu.Lock()
	s.grpc, s.http, s.done = grpcServer, httpServer, done
	s.mu.Unlock()
	return port
}

// served tells of an end that nobody asked for.
func (s *Server) served(err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
		s.tb.Errorf("nacostest: %v", err)
	}
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
