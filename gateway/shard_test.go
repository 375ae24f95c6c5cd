package gateway_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

func sharded(n int) gateway.Policy {
	p := weak()
	p.Local.Permits = 1
	p.Shards = n
	return p
}

func TestOneIDAlwaysHasOneShard(t *testing.T) {
	bubble(t, sharded(8), func(t *testing.T, k one) {
		counts := map[string]int{}
		const ids = 4000
		for i := range ids {
			l := k.must(fmt.Sprint("sku", i))
			counts[l.Grant().Key.String()]++
			_ = l.Unlock(t.Context())
		}
		want := float64(ids) / 8
		for key, n := range counts {
			if !strings.HasPrefix(key, "biz:c:lock:shard:") || math.Abs(float64(n)-want) > 5*math.Sqrt(want) {
				t.Errorf("%s has %d of %d ids", key, n, ids)
			}
		}
		if len(counts) != 8 {
			t.Errorf("%d shards", len(counts))
		}
		// Told once and for all: other instances and languages reckon the same.
		for id, want := range map[string]string{"10086": "biz:c:lock:shard:1", "10087": "biz:c:lock:shard:6", "shard:3": "biz:c:lock:shard:3", "shard:03": "biz:c:lock:shard:7", "shard:8": "biz:c:lock:shard:6"} {
			l := k.must(id)
			if got := l.Grant().Key.String(); got != want {
				t.Errorf("%s has %s, want %s", id, got, want)
			}
			_ = l.Unlock(t.Context())
		}
	})
}

func TestOneShardIsOneCoarseLock(t *testing.T) {
	bubble(t, sharded(1), func(t *testing.T, k one) {
		l := k.must("a")
		if _, err := k.TryLock(t.Context(), "b"); !errors.Is(err, tierlock.ErrHeld) {
			t.Errorf("another id: %v", err)
		}
		inner, err := k.TryLock(l.Context(t.Context()), "b")
		if err != nil {
			t.Errorf("another id under the lock: %v", err)
		}
		// Found again by the id's own key, as by the slot's.
		for _, s := range []string{"biz:c:lock:a", "biz:c:lock:shard:0"} {
			if found, err := k.Attach(t.Context(), key(t, s), l.Grant().RequestID); err != nil || found != l {
				t.Errorf("attached by %s: %v, %v", s, found, err)
			}
		}
		_ = inner.Unlock(t.Context())
		_ = l.Unlock(t.Context())
		all, err := k.LockAll(t.Context(), []string{"a", "b", "c"})
		if err != nil || len(all.Grants()) != 1 {
			t.Errorf("all: %v, %v", all, err)
		}
		_ = all.Unlock(t.Context())
	})
}

func TestTheTrailNamesTheIDAndNotItsShard(t *testing.T) {
	for _, mode := range []tierlock.Mode{tierlock.ModeShared, tierlock.ModeLocal, tierlock.ModeBypass, tierlock.ModeOptimistic} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, sharded(8), func(t *testing.T, k one) {
				k.Force("c", mode)
				l, _ := k.TryLock(t.Context(), "10086")
				_ = l.Unlock(t.Context())
				evs := k.Audit.Events()
				if want := 2; mode != tierlock.ModeOptimistic && len(evs) != want || len(evs) == 0 {
					t.Fatalf("%d events", len(evs))
				}
				for _, ev := range evs {
					if ev.Key.String() != "biz:c:lock:10086" {
						t.Errorf("%s of %s", ev.Type, ev.Key)
					}
				}
			})
		})
	}
}

func TestShardsAndPresetsAreChecked(t *testing.T) {
	for _, n := range []int{-1, 1025} {
		p := sharded(n)
		if err := p.Validate(); !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "shards") {
			t.Errorf("%d shards: %v", n, err)
		}
	}
	p := strong()
	p.Preset = gateway.PresetFlow + 1
	if err := p.Validate(); !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "preset") {
		t.Errorf("an unknown preset: %v", err)
	}
	for _, c := range []struct {
		preset    gateway.Preset
		word      string
		ttl, wait time.Duration
	}{
		{gateway.PresetResource, "resource", 2 * time.Second, 100 * time.Millisecond},
		{gateway.PresetBusiness, "business", 15 * time.Second, 300 * time.Millisecond},
		{gateway.PresetFlow, "flow", time.Minute, 2 * time.Second},
	} {
		p := gateway.Strong("x", gateway.Fence).With(c.preset)
		if p.TTL != c.ttl || p.Wait != c.wait || p.Preset != c.preset || p.Validate() != nil {
			t.Errorf("%v: %v, %v, %v", c.preset, p.TTL, p.Wait, p.Validate())
		}
		var read gateway.Preset
		if err := read.UnmarshalText([]byte(c.word)); err != nil || read != c.preset || read.String() != c.word {
			t.Errorf("%s read as %v, %v", c.word, read, err)
		}
	}
	var read gateway.Preset
	if err := read.UnmarshalText([]byte("large")); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("large: %v", err)
	}
}
