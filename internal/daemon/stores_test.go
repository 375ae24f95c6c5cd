package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock/internal/servers"
)

// password_file is read for each new connection: an operator changes the password without
// a restart.
func TestThePasswordFileMayChange(t *testing.T) {
	server := servers.Redis(t)
	boss := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
	t.Cleanup(func() { _ = boss.Close() })
	do := func(words ...any) {
		t.Helper()
		if err := boss.Do(t.Context(), words...).Err(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	put := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do("acl", "setuser", "tierlock", "reset", "on", ">old", "~*", "+@all")
	put("old")

	c := StoreConfig{Kind: "redis", Addrs: []string{server.Addr()}, Username: "tierlock", Password: Secret{File: file}}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	st, err := c.open(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	probe := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := st.Traits().Prober.Probe(ctx, ""); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	probe("at the start")
	do("acl", "setuser", "tierlock", ">new")
	put("new")
	do("acl", "setuser", "tierlock", "<old")
	probe("over the old connection")
	do("client", "kill", "user", "tierlock")
	probe("over a new one")
}
