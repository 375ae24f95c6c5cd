package redisstore_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// Some other client's script that never ends: the server answers everybody BUSY.
func TestServerThatIsBusyWithAScriptDenies(t *testing.T) {
	server := servers.Redis(t, "--busy-reply-threshold", "1")
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	ended := make(chan error)
	go func() { ended <- admin(t, server.Addr()).Eval(t.Context(), `while true do end`, nil).Err() }()
	eventually(t, "the server is busy", func() bool {
		err := boss.Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY ")
	})
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)

	if err := boss.ScriptKill(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the endless script ended by itself")
	}
	take(t, store, newHold(t, minute), tierlock.Granted)
}

// A server that loads its data answers LOADING: it is down at the first.
func TestServerThatLoadsItsDataIsDown(t *testing.T) {
	server := servers.Redis(t, "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024")
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	fill := boss.Pipeline()
	for i := range 200 {
		fill.Set(t.Context(), "filler:"+strings.Repeat("x", i), strings.Repeat("y", 4096), 0)
	}
	if _, err := fill.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	configure(t, boss, "rdbcompression", "no")
	configure(t, boss, "key-load-delay", "10000") // microseconds a key: two seconds in all
	loaded := make(chan error)
	go func() {
		patient := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, ReadTimeout: -1, MaxRetries: -1})
		defer patient.Close()
		loaded <- patient.Do(t.Context(), "debug", "reload").Err()
	}()
	asking := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true, MaxRetries: -1})
	defer asking.Close()
	eventually(t, "the server loads", func() bool {
		err := asking.Get(t.Context(), "filler").Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING ")
	})
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDown, false)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	take(t, store, newHold(t, minute), tierlock.Granted)
}

// A server whose disk takes no snapshot refuses writes, and only those.
func TestServerWhoseSnapshotsFailDenies(t *testing.T) {
	server := servers.Redis(t, "--save", "3600 1", "--dbfilename", "dump.rdb")
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	dir := boss.ConfigGet(t.Context(), "dir").Val()["dir"]
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil { // no file can take its name
		t.Fatal(err)
	}
	if err := boss.BgSave(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the snapshot fails", func() bool {
		return boss.InfoMap(t.Context(), "persistence").Item("Persistence", "rdb_last_bgsave_status") == "err"
	})
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)
	look(t, store, newHold(t, minute), tierlock.Gone)
}

// A server with no client to spare says so to each new connection and closes it. Nothing
// was asked, so nothing is in doubt.
func TestServerWithoutRoomForClientsIsSaturated(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	configure(t, boss, "maxclients", "1")
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	for range 20 {
		_, err := try(t, store, newHold(t, minute))
		var fault *tierlock.Fault
		if !errors.As(err, &fault) || fault.InDoubt || fault.Reason != tierlock.ReasonSaturated {
			t.Fatalf("%v, in doubt %t, want saturated", err, fault != nil && fault.InDoubt)
		}
	}
	configure(t, boss, "maxclients", "100")
	take(t, store, newHold(t, minute), tierlock.Granted)
}

// A server without a password, asked from elsewhere, says so and closes. Nothing was
// asked, so nothing is in doubt.
func TestServerInProtectedModeDenies(t *testing.T) {
	server := servers.Redis(t, "--bind", "0.0.0.0", "--protected-mode", "yes")
	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	store := open(t, redisstore.Config{Addrs: []string{net.JoinHostPort(ownAddress(t), port)}})
	for range 5 {
		_, err := try(t, store, newHold(t, minute))
		wantFault(t, err, tierlock.ReasonDenied, false)
		if !strings.Contains(err.Error(), "protected mode") {
			t.Fatalf("%v, want it to say what to mend", err)
		}
	}
	configure(t, admin(t, server.Addr()), "protected-mode", "no")
	take(t, store, newHold(t, minute), tierlock.Granted)
}

// ownAddress is an address of this machine that does not count as its own to Redis.
func ownAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("left out: this machine has no network but loopback")
	return ""
}
