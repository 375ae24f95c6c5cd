package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestShopOnRealServers(t *testing.T) {
	redis, postgres := servers.Redis(t), servers.Postgres(t)
	var out strings.Builder
	if err := run(t.Context(), []string{"-redis", redis.Addr(), "-dsn", postgres.DSN()}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log(out.String())
	for _, want := range []string{"20 bought, 10 sold out, 30 claimed, 30 had claimed before", "0 pieces left of 20, 20 orders, 30 claims of 30 users"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, &out)
		}
	}
}

func TestShopNeedsItsServers(t *testing.T) {
	for _, args := range [][]string{{"-dsn", "postgres://nobody@127.0.0.1:1/none?connect_timeout=1"}, {"-dsn", "no url"}, {"-what"}} {
		if err := run(t.Context(), args, new(strings.Builder)); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
