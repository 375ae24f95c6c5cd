package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/internal/servers"
)

// Two processes on one Redis: each explains a key that the other holds, its own, and what is
// left once the server is gone.
func TestExplainOnRedis(t *testing.T) {
	server := servers.Redis(t)
	a, _ := onRedis(t, server.Addr())
	b, _ := onRedis(t, server.Addr())
	ctx := t.Context()
	explain := func(g *gateway.Gateway, key string) *gateway.Explanation {
		t.Helper()
		k, err := tierlock.ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		x, err := g.Explain(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const key = "biz:order:lock:10086"
	if x := explain(a, key); x.Store.Found != "free" || x.Next.Tier != tierlock.Shared || x.Next.Outcome != tierlock.Success {
		t.Errorf("free: %+v, %+v", x.Store, x.Next)
	}
	l, err := chain(t, a, "order").TryLock(ctx, "10086")
	if err != nil {
		t.Fatal(err)
	}
	fp := l.Grant().RequestID.Fingerprint()
	mine, others := explain(a, key), explain(b, key)
	for who, x := range map[string]*gateway.Explanation{"holder's": mine, "other's": others} {
		left := time.Duration(x.Store.Remaining) * time.Millisecond
		if x.Store.Found != "held" || x.Store.Holder != fp || left <= 50*time.Second || left > time.Minute || x.Store.Endless {
			t.Errorf("%s: %+v", who, x.Store)
		}
		if x.Next.Outcome != tierlock.Failure || x.Next.Reason != tierlock.ReasonHeld || x.Next.By != "store" {
			t.Errorf("%s: next %+v", who, x.Next)
		}
	}
	if !mine.Store.Here || mine.Held != 1 || mine.Holders[0].Token != l.Grant().Token || others.Store.Here || others.Held != 0 {
		t.Errorf("holder's %+v, other's %+v", mine.Holders, others.Holders)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	if err := client.Persist(ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	for who, g := range map[string]*gateway.Gateway{"holder's": a, "other's": b} {
		x := explain(g, key)
		var text strings.Builder
		if err := x.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if s := x.Store; s.Found != "held" || s.Remaining != 0 || !s.Endless || !strings.Contains(text.String(), "held by "+fp+" without a ttl: it never ends by itself, ") {
			t.Errorf("%s, without a ttl: %+v in\n%s", who, s, text.String())
		}
	}
	if err := l.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Exists(ctx, key, "{"+key+"}:wait", "{"+key+"}:depth").Result(); n != 0 || err != nil {
		t.Errorf("explaining left %d keys, %v", n, err)
	}

	server.Kill()
	eventually(t, 10*time.Second, "the store is known to be gone", func() bool {
		_, err := chain(t, a, "order").TryLock(ctx, "10086")
		return errors.Is(err, tierlock.ErrSystem) && a.Status().Chains[1].Targets[0].State == degrade.Down
	})
	began := time.Now()
	x := explain(a, key)
	if x.Store.Found != "unknown" || x.Health.State != degrade.Down || x.Next.Outcome != tierlock.SystemError || x.Next.Reason != tierlock.ReasonDown ||
		len(x.Steps) == 0 || time.Since(began) > time.Second {
		t.Errorf("after %v: %+v, %+v, %+v, steps %v", time.Since(began), x.Store, x.Health, x.Next, x.Steps)
	}
	if x := explain(a, "biz:coupon:lock:u1"); x.Next.Outcome != tierlock.Success || x.Next.Tier == tierlock.Shared {
		lock, err := chain(t, a, "coupon").TryLock(context.Background(), "u1")
		t.Errorf("weak: %+v, and came %v, %v", x.Next, lock, err)
	}
}
