package spec_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/internal/servers"
)

// vectors reads a file of vectors, strictly: a field that no runner knows is a mistake.
func vectors[T any](t *testing.T, name string) (v T) {
	t.Helper()
	f, err := os.Open("vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := json.NewDecoder(f)
	in.DisallowUnknownFields()
	if err := in.Decode(&v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

type keyVectors struct {
	Valid []struct {
		Key       string
		FNV       string `json:"fnv1a64"`
		Percent   uint64
		Slot      int64
		Partition int `json:"partition_of_12"`
		Fence     string
		Depth     string
		Wait      string
	}
	Invalid []struct {
		Hex    string `json:"key_hex"`
		Why    string
		Length int
		Byte   byte
		At     int
	}
}

func TestKeyVectors(t *testing.T) {
	v := vectors[keyVectors](t, "keys.json")
	if len(v.Valid) == 0 || len(v.Invalid) == 0 {
		t.Fatalf("%d valid keys and %d invalid ones prove nothing", len(v.Valid), len(v.Invalid))
	}
	for _, c := range v.Valid {
		key, err := tierlock.ParseKey(c.Key)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if got := strconv.FormatUint(key.Hash(), 10); got != c.FNV || key.Hash()%100 != c.Percent {
			t.Errorf("%s: hash %s, percent %d, want %s, %d", c.Key, got, key.Hash()%100, c.FNV, c.Percent)
		}
		if got := audit.PartitionOf(c.Key, 12); got != c.Partition {
			t.Errorf("%s: partition %d, want %d", c.Key, got, c.Partition)
		}
		for kind, record := range map[string]string{"fence": c.Fence, "depth": c.Depth, "wait": c.Wait} {
			if record != "{"+c.Key+"}:"+kind {
				t.Errorf("%s: %s record %s", c.Key, kind, record)
			}
		}
	}
	for _, c := range v.Invalid {
		raw, err := hex.DecodeString(c.Hex)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tierlock.ParseKey(string(raw))
		invalid, ok := errors.AsType[*tierlock.InvalidError](err)
		if !ok || invalid.Field != "key" {
			t.Errorf("%q: %v, want it refused", raw, err)
			continue
		}
		want := fmt.Sprintf(" at %d is not one of", c.At)
		if c.Why == "length" {
			want = fmt.Sprintf("got %d", c.Length)
		} else if !strings.Contains(invalid.Rule, "'"+string(rune(c.Byte))+"'") && !strings.Contains(invalid.Rule, fmt.Sprintf("0x%02x", c.Byte)) {
			t.Errorf("%q: %s does not name byte %#x", raw, invalid.Rule, c.Byte)
		}
		if !strings.Contains(invalid.Rule, want) || c.Why == "length" && len(raw) != c.Length {
			t.Errorf("%q: %s, want %q in it", raw, invalid.Rule, want)
		}
	}
}

// A canary of n percent covers the keys whose percent is below n.
func TestCanaryVectors(t *testing.T) {
	for _, c := range vectors[keyVectors](t, "keys.json").Valid {
		key, err := tierlock.ParseKey(c.Key)
		if err != nil {
			t.Fatal(err)
		}
		for percent := uint8(1); percent <= 100; percent++ {
			o := degrade.Order{Mode: tierlock.ModeBypass, Percent: percent, Until: farAway}
			if got := o.Covers(farAway.AddDate(0, 0, -1), key.Hash()); got != (c.Percent < uint64(percent)) {
				t.Errorf("%s: an order for %d percent covers it: %t", c.Key, percent, got)
			}
		}
	}
}

func TestSlotVectors(t *testing.T) {
	server := servers.Redis(t, "--cluster-enabled", "yes")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
	defer client.Close()
	for _, c := range vectors[keyVectors](t, "keys.json").Valid {
		for _, name := range []string{c.Key, c.Fence, c.Depth, c.Wait} {
			if slot, err := client.ClusterKeySlot(t.Context(), name).Result(); err != nil || slot != c.Slot {
				t.Errorf("%s: slot %d, %v, want %d", name, slot, err, c.Slot)
			}
		}
	}
}

func TestRequestIDVectors(t *testing.T) {
	v := vectors[struct {
		Valid   []struct{ ID, Fingerprint string }
		Invalid []string
	}](t, "request_ids.json")
	for _, c := range v.Valid {
		if id, err := tierlock.ParseRequestID(c.ID); err != nil || id.Secret() != c.ID || id.Fingerprint() != c.Fingerprint {
			t.Errorf("%s: %v, fingerprint %s, want %s", c.ID, err, id.Fingerprint(), c.Fingerprint)
		}
	}
	for _, text := range v.Invalid {
		if _, err := tierlock.ParseRequestID(text); !errors.Is(err, tierlock.ErrInvalid) {
			t.Errorf("%q: %v, want it refused", text, err)
		}
	}
	if len(v.Valid) < 3 || len(v.Invalid) < 6 {
		t.Errorf("%d valid, %d invalid", len(v.Valid), len(v.Invalid))
	}
}
