package audit_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool/powerfs"
)

// secret and its digest of the key, as openssl makes it.
const (
	secret   = "correct horse battery"
	personal = "biz:coupon:lock:alice.example-c7"
)

func TestKeysOfAChainThatIsHiddenAreNowhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, sink := powerfs.New(), newMemory(3)
		cfg := config(disk, sink)
		cfg.Digest = audit.Digest{Chains: []string{"coupon"}, Secret: []byte(secret)}
		l := open(t, cfg)
		g := tierlock.Grant{Chain: "coupon", Key: key(t, personal), RequestID: tierlock.NewRequestID(), Tier: tierlock.Bypass, Store: "bypass", AcquiredAt: time.Now()}
		other := g
		other.Chain, other.Key = "order", key(t, "biz:order:lock:10086")
		for _, g := range []tierlock.Grant{g, other} {
			ev := audit.Acquired(g, time.Second, 0)
			if err := l.Record(t.Context(), &ev); err != nil {
				t.Fatal(err)
			}
			if ev.Key != g.Key {
				t.Error("the caller's own event was changed")
			}
			end := audit.Ended(g, audit.Released, audit.Committed, time.Now())
			end.ClockError = time.Millisecond
			l.Note(&end)
		}
		drain(t, l)
		shut(t, l)
		hidden := cfg.Digest.Key("coupon", g.Key)
		count := map[tierlock.Key]int{}
		for _, kind := range []audit.Type{audit.TypeAcquire, audit.TypeEnd} {
			for _, ev := range sink.ofType(t, kind) {
				count[ev.Key]++
			}
		}
		if count[hidden] != 2 || count[other.Key] != 2 || len(count) != 2 {
			t.Errorf("%v", count)
		}
		for name, content := range disk.Files() {
			if bytes.Contains(content, []byte("alice")) {
				t.Errorf("%s shows the id", name)
			}
		}
	})
}

func TestDigestIsTheSameForAllWhoHaveTheSecretAndForNobodyElse(t *testing.T) {
	t.Parallel()
	one := audit.Digest{Chains: []string{"coupon"}, Secret: []byte(secret)}
	k := key(t, personal)
	got := one.Key("coupon", k)
	// printf %s biz:coupon:lock:alice.example-c7 | openssl dgst -sha256 -hmac 'correct horse battery'
	if want := "coupon:digest:d98ff62c45b7434fa68bf07eff18e461"; got.String() != want {
		t.Errorf("%s, want %s", got, want)
	}
	if one.Key("order", k) != k {
		t.Error("another chain's key was hidden")
	}
	one.Secret = []byte(secret + "!")
	if one.Key("coupon", k) == got {
		t.Error("another secret, and the same digest")
	}
}

func TestDigestIsCheckedBeforeAnyIO(t *testing.T) {
	t.Parallel()
	for field, d := range map[string]audit.Digest{
		"digest.secret": {Chains: []string{"coupon"}, Secret: []byte("short")},
		"digest.chains": {Secret: []byte(secret)},
	} {
		cfg := config(powerfs.New(), nil)
		cfg.Digest = d
		if _, err := audit.Open(cfg); !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "invalid audit."+field) {
			t.Errorf("%v, want a fault of %s", err, field)
		}
	}
	for _, chain := range []string{"a b", strings.Repeat("x", 230)} {
		if err := (audit.Digest{Chains: []string{chain}, Secret: []byte(secret)}).Validate(); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%.10s: %v", chain, err)
		}
	}
}
