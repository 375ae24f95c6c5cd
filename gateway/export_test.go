package gateway

import (
	"time"

	"github.com/tierlock/tierlock"
)

// WrapLocal puts wrap around the chain's local table, so that a test can act at the moment
// in which a request enters it.
func (c *Chain) WrapLocal(wrap func(tierlock.Backend) tierlock.Backend) {
	c.local.Backend = wrap(c.local.Backend)
}

// LedgerRoom replaces how many entries the ledger takes.
func (g *Gateway) LedgerRoom(n int) { g.ledger.room = n }

// WatchdogLooks is when the watchdog looks again by itself.
func (g *Gateway) WatchdogLooks() time.Time {
	g.watchdog.mu.Lock()
	defer g.watchdog.mu.Unlock()
	return g.watchdog.next
}

// Amendable are the fields of a policy that a switch document may change.
var Amendable = amendable
