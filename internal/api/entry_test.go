package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// entered is the answer to who entered the lock of keyA.
func entered(entry int) string {
	return strings.Replace(grant, `"exclusive"`, fmt.Sprintf(`"entry":%d,"exclusive"`, entry), 1)
}

const freed = `OK {"outcome":"success"}`

func TestALockIsEnteredAndLeftByName(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.want("/v1/try", keyA+`}`, grant)
		b.want("/v1/try", keyA+`,"entry":7}`, entered(7))
		b.want("/v1/lock", keyA+`,"entry":7}`, entered(7)) // a repeat changes nothing
		b.want("/v1/try", keyA+`,"entry":8}`, entered(8))
		if n := b.kit.Store.Depth("biz:order:lock:1"); n != 3 {
			t.Errorf("depth %d", n)
		}
		b.want("/v1/unlock", keyA+`}`, freed)
		b.want("/v1/unlock", keyA+`,"entry":8}`, freed)
		b.want("/v1/unlock", keyA+`,"entry":8}`, freed) // idempotent, and gives nobody else's entry back
		b.want("/v1/held", keyA+`,"entry":7}`, `OK {"held":true,"remaining_ms":14950}`)
		if got := b.post("/v1/try", keyB+`}`); !strings.HasPrefix(got, "Conflict") {
			t.Errorf("somebody else got %s", got)
		}
		b.want("/v1/unlock", keyA+`,"entry":7}`, freed)
		if n := b.kit.Store.Keys(); n != 0 {
			t.Errorf("%d keys after the last entry", n)
		}
		b.want("/v1/unlock", keyA+`,"entry":7}`, lost)
		b.want("/v1/try", keyA+`,"entry":7}`, lost) // who means to join never finds himself alone
	})
}

// TestALockIsEnteredThroughAnotherDaemon: two daemons of one store, and either gives back
// what the other took.
func TestALockIsEnteredThroughAnotherDaemon(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		second, err := gateway.New(gateway.Config{
			Chains: chains(), Stores: map[string]tierlock.Backend{"memory": b.kit.Store}, Audit: new(gatewaytest.Audit),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close(t.Context())
		other := bench{t, b.kit, New(Config{Gateway: second}).Handler()}
		b.want("/v1/try", keyA+`}`, grant)
		other.want("/v1/try", keyA+`,"entry":7}`, strings.Replace(entered(7), `"replayed":false`, `"replayed":true`, 1))
		b.want("/v1/unlock", keyA+`}`, freed)
		other.want("/v1/held", keyA+`}`, `OK {"held":true,"remaining_ms":14950}`)
		b.want("/v1/unlock", keyA+`,"entry":7}`, freed)
		if n := b.kit.Store.Keys(); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

// What a database or JSON cannot hold as it is must not name a record.
func TestBusinessThatNamesNothingIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		for id, value := range map[string]string{`a\u0000b`: `a\\x00b`, "a\xffb": `a\\ufffdb`, `a\ud800b`: `a\\ufffdb`} {
			rule := "byte 0xef at 1: want UTF-8 without NUL and U+FFFD"
			if strings.Contains(id, "0000") {
				rule = "byte 0x00 at 1: want UTF-8 without NUL and U+FFFD"
			}
			b.want("/v1/try", keyA+`,"business":{"type":"stock","id":"`+id+`"}}`, `Bad Request {"error":"invalid","field":"business.id","value":"`+value+`","rule":"`+rule+`"}`)
		}
		if c := b.kit.Store.Counts(); c.Acquire != 0 {
			t.Errorf("the store was asked: %+v", c)
		}
	})
}

func TestBusinessReachesTheTrail(t *testing.T) {
	bubble(t, func(t *testing.T, b bench) {
		b.want("/v1/try", keyA+`,"business":{"type":"stock","id":"sku-1","op":"sell","delta":-2,"before":5,"after":3}}`, grant)
		time.Sleep(time.Second)
		b.want("/v1/unlock", keyA+`}`, freed)
		events := b.kit.Audit.Events()
		if len(events) != 2 {
			t.Fatalf("%d events", len(events))
		}
		for _, ev := range events {
			was := ev.Business
			if was.Before == nil || was.After == nil || *was.Before != 5 || *was.After != 3 {
				t.Errorf("%s: before %v, after %v", ev.Type, was.Before, was.After)
			}
			was.Before, was.After = nil, nil
			if want := (audit.Business{Type: "stock", ID: "sku-1", Op: "sell", Delta: -2}); was != want {
				t.Errorf("%s: %+v", ev.Type, was)
			}
		}
	})
}
