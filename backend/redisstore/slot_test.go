package redisstore

import (
	"testing"

	"github.com/tierlock/tierlock"
)

// The slots are what CLUSTER KEYSLOT of redis-server 7.0.15 says.
func TestSlotIsTheServers(t *testing.T) {
	for text, want := range map[string]uint16{
		"123456789":             12739, // CRC-16/XMODEM's own check value, 0x31c3
		"a":                     15495,
		"biz:order:lock:10086":  8153,
		"biz:coupon:lock:u1-c2": 2012,
	} {
		key, err := tierlock.ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := slotOf(key); got != want {
			t.Errorf("slot of %s: %d, want %d", text, got, want)
		}
	}
}
