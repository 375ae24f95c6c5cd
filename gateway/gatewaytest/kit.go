package gatewaytest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

// Kit is a gateway on a store and a recorder in memory. It ends with its test.
type Kit struct {
	*gateway.Gateway
	Store *Store
	Audit *Audit

	tb      testing.TB
	mu      sync.Mutex
	version uint64                         // guarded by mu
	orders  map[string]switchcfg.Directive // guarded by mu
}

// New starts a Kit for the chains, with the hooks if any are given. Inside a
// testing/synctest bubble it must be called in the bubble, and [Kit.End] at its end.
func New(tb testing.TB, chains map[string]gateway.Policy, hooks ...gateway.Hooks) *Kit {
	tb.Helper()
	k := &Kit{tb: tb, Store: NewStore(), Audit: new(Audit), orders: map[string]switchcfg.Directive{}}
	g, err := gateway.New(gateway.Config{
		Chains: chains, Stores: map[string]tierlock.Backend{"memory": k.Store}, Audit: k.Audit, Hooks: gateway.Join(hooks...),
	})
	if err != nil {
		tb.Fatal(err)
	}
	k.Gateway = g
	tb.Cleanup(k.End)
	return k
}

// End closes the gateway: it mends the store first, so that nothing stays in doubt. The
// test's clean-up calls it too; a second call does nothing.
func (k *Kit) End() {
	k.Store.Mend()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := k.Close(ctx); err != nil {
		k.tb.Errorf("gatewaytest: close: %v", err)
	}
}

// Force puts a chain on a mode for an hour, through the real switch. It is in force when
// Force returns; ModeAuto ends it. Strong chains go wherever they are told.
func (k *Kit) Force(chain string, mode tierlock.Mode) {
	k.tb.Helper()
	k.ForceFor(chain, mode, time.Hour)
}

// ForceFor is Force with an end of its own: at most 24 h.
func (k *Kit) ForceFor(chain string, mode tierlock.Mode, span time.Duration) {
	k.tb.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	k.orders[chain] = switchcfg.Directive{Mode: mode, Until: time.Now().Add(span), Reason: "forced by a test", By: "gatewaytest", BreakGlass: true}
	if mode == tierlock.ModeAuto {
		delete(k.orders, chain)
	}
	doc := switchcfg.Document{Version: k.version, Chains: map[string]switchcfg.Directive{}}
	for name, o := range k.orders {
		if o.Until.After(time.Now()) {
			doc.Chains[name] = o
		}
	}
	if err := k.Apply(doc); err != nil {
		k.tb.Fatalf("gatewaytest: force %s onto %v: %v", chain, mode, err)
	}
}
