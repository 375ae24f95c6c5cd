package redisstore_test

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
)

// said is what a fake server answers to one command.
type said func(c *server.Peer, args []string)

// fake is a server that answers these commands as told, and all others with an error.
func fake(t testing.TB, commands map[string]said) (addr string) {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for name, say := range commands {
		if err := s.Register(name, func(c *server.Peer, _ string, args []string) { say(c, args) }); err != nil {
			t.Fatal(err)
		}
	}
	return s.Addr().String()
}

// fakeSentinel tells what it is told to tell.
type fakeSentinel struct {
	addr string
	told atomic.Pointer[told]
	asks atomic.Int64

	mu        sync.Mutex
	listeners []*server.Peer
}

type told struct {
	master string // empty: it knows none
	epoch  int
}

func newFakeSentinel(t testing.TB, master string, epoch int) *fakeSentinel {
	s := new(fakeSentinel)
	s.told.Store(&told{master, epoch})
	s.addr = fake(t, map[string]said{"SENTINEL": s.sentinel, "SUBSCRIBE": s.subscribe})
	return s
}

func (s *fakeSentinel) sentinel(c *server.Peer, args []string) {
	s.asks.Add(1)
	now := s.told.Load()
	host, port, _ := net.SplitHostPort(now.master)
	switch {
	case args[0] == "get-master-addr-by-name" && now.master == "":
		c.WriteNull()
	case now.master == "":
		c.WriteError("ERR No such master with that name")
	case args[0] == "get-master-addr-by-name":
		c.WriteStrings([]string{host, port})
	default:
		c.WriteStrings([]string{"name", args[1], "config-epoch", strconv.Itoa(now.epoch)})
	}
}

func (s *fakeSentinel) subscribe(c *server.Peer, args []string) {
	c.WriteLen(3)
	c.WriteBulk("subscribe")
	c.WriteBulk(args[0])
	c.WriteInt(1)
	s.mu.Lock()
	s.listeners = append(s.listeners, c)
	s.mu.Unlock()
}

// asked counts the questions.
func (s *fakeSentinel) asked() int64 { return s.asks.Load() }

// push tells all who listen that the master is another.
func (s *fakeSentinel) push() (heard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.listeners {
		c.Block(func(w *server.Writer) {
			w.WriteStrings([]string{"message", "+switch-master", "main 127.0.0.1 1 127.0.0.1 2"})
			w.Flush()
		})
	}
	return len(s.listeners)
}

// fakeShard is a server of a Cluster that says it has all slots and answers scripts as told.
// It counts what it is asked.
type fakeShard struct {
	addr    string
	scripts atomic.Int64
	asked   atomic.Int64 // of them, those right behind an ASKING
	maps    atomic.Int64
}

func newFakeShard(t testing.TB, script said) *fakeShard {
	s := new(fakeShard)
	asking := false // of the one connection that is asked at a time
	s.addr = fake(t, map[string]said{
		"CLUSTER": func(c *server.Peer, args []string) {
			if args[0] == "INFO" || args[0] == "info" {
				c.WriteBulk("cluster_state:ok\r\ncluster_current_epoch:3\r\n")
				return
			}
			s.maps.Add(1)
			host, port, _ := net.SplitHostPort(s.addr)
			number, _ := strconv.Atoi(port)
			c.WriteLen(1)
			c.WriteLen(3)
			c.WriteInt(0)
			c.WriteInt(16383)
			c.WriteLen(3)
			c.WriteBulk(host)
			c.WriteInt(number)
			c.WriteBulk("id")
		},
		"ASKING": func(c *server.Peer, _ []string) { asking = true; c.WriteOK() },
		"EVALSHA": func(c *server.Peer, args []string) {
			s.scripts.Add(1)
			if asking {
				s.asked.Add(1)
			}
			asking = false
			script(c, args)
		},
	})
	return s
}

// refuse answers with an error.
func refuse(format string, parts ...any) said {
	text := fmt.Sprintf(format, parts...)
	return func(c *server.Peer, _ []string) { c.WriteError(text) }
}

// grant answers as the acquire script does, at the server time 1.
func grant(c *server.Peer, _ []string) {
	c.WriteBulk("1 1:0:1:1:7")
}
