package degrade

import (
	"time"

	"github.com/tierlock/tierlock"
)

// Order is what an operator says of one chain. The zero Order, and one of mode auto, is
// none. It ends by itself at Until.
type Order struct {
	Mode tierlock.Mode
	// Until is on this process's monotonic clock: at this moment the order is over.
	Until time.Time
	// Percent of the keys obey, chosen by hash, the same keys on every instance. 0 and
	// 100 are all: a document that says 0 is refused before it becomes an order.
	Percent uint8
	// Version of the document, and who wrote why; carried for those who show it.
	Version    uint64
	Reason, By string
}

// Covers tells whether the order is in force at that moment for the key with that hash.
func (o *Order) Covers(at time.Time, hash uint64) bool {
	return o != nil && o.Mode > tierlock.ModeAuto && at.Before(o.Until) &&
		(o.Percent == 0 || hash%100 < uint64(o.Percent))
}
