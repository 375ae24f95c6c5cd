package redisstore_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/backend/backendtest"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStoreKeepsTheContractInProcess(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.ClockTTL(true)
	// It compiles a script each time it runs one: its speed says nothing of Redis.
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}, Timeout: 2 * time.Second})
	backendtest.Run(t, "miniredis "+moduleVersion(t, "github.com/alicebob/miniredis/v2"), store, backendtest.Options{})
}

func TestStoreKeepsTheContractOnRedis(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	backendtest.Run(t, "redis-server "+version(t, server.Addr()), open(t, redisstore.Config{Addrs: []string{server.Addr()}}), backendtest.Options{
		Hang: func(*testing.T) func() {
			server.Freeze()
			return server.Thaw
		},
	})
}

// moduleVersion is what go.mod says of a module.
func moduleVersion(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == path {
			return words[1]
		}
	}
	t.Fatalf("go.mod does not name %s", path)
	return ""
}

func open(t testing.TB, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// admin is a plain client for looking into a server and for breaking it.
func admin(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func version(t testing.TB, addr string) string {
	t.Helper()
	info, err := admin(t, addr).Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("no redis_version in %q", info)
	return ""
}
