package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
)

func TestConfigReportsEveryFaultAtOnce(t *testing.T) {
	_, err := redisstore.New(redisstore.Config{
		Addrs: []string{"a:1", "b"}, DB: -1, Wire: -3, PoolSize: -5, Timeout: -time.Second, Dial: -1, Username: "u",
	})
	if !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{`addrs "a:1,b"`, "exactly one address", `addrs "b"`, `db "-1"`, `wire "-3"`, `pool_size "-5"`, `timeout "-1s"`, `dial "-1ns"`, "invalid password"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestConfigTakesOneKindOfCredentials(t *testing.T) {
	_, err := redisstore.New(redisstore.Config{
		Addrs: []string{"a:1"}, Password: "p",
		Credentials: func(context.Context) (string, string, error) { return "", "", nil },
	})
	if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "invalid credentials") {
		t.Errorf("error %v", err)
	}
}

func TestConfigReportsFaultsOfTopologies(t *testing.T) {
	_, err := redisstore.New(redisstore.Config{
		Addrs: []string{"a:1", "b:2"}, Cluster: true, DB: 3, Sentinel: &redisstore.SentinelConfig{Username: "u"},
	})
	if !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{`cluster "true"`, `db "3"`, "sentinel.master", "sentinel.password"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "addrs") {
		t.Errorf("two addresses are no fault: %v", err)
	}
}

func TestConfigWantsAnAddress(t *testing.T) {
	if _, err := redisstore.New(redisstore.Config{}); !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "is required") {
		t.Errorf("error %v", err)
	}
}

func TestStoreRefusesBadInputBeforeAsking(t *testing.T) {
	store := open(t, redisstore.Config{Addrs: []string{"127.0.0.1:1"}}) // nobody listens there
	hold := newHold(t, 0)
	if _, err := store.Acquire(t.Context(), tierlock.Request{Hold: hold}); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("ttl 0: %v", err)
	}
	if _, err := store.Renew(t.Context(), []tierlock.Hold{hold}); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("renew with ttl 0: %v", err)
	}
	hold.TTL = time.Second
	if _, err := store.Acquire(t.Context(), tierlock.Request{Hold: hold, Floor: 1 << 53}); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("floor 2^53: %v", err)
	}
}
