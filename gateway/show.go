package gateway

import (
	"fmt"
	"io"
	"log/slog"
)

// A handle and an option hold the request id in fields that are not exported. There fmt
// and slog do not ask the id how it wants to be shown, they print its bytes: so whatever
// holds one in this package shows itself.

// String names the lock: chain, key, tier and the holder's fingerprint; never the request
// id, which releases it.
func (l *Lock) String() string {
	if l == nil {
		return "no lock"
	}
	g := l.Grant()
	return g.Chain + " lock " + g.Key.String() + " (" + g.Tier.String() + ", " + g.RequestID.Fingerprint() + ")"
}

// Format writes String for every verb.
func (l *Lock) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// LogValue groups what String names.
func (l *Lock) LogValue() slog.Value {
	if l == nil {
		return slog.StringValue("no lock")
	}
	return slog.GroupValue(l.attrs(nil)...)
}

// Format names the kind of option only: it may hold a request id.
func (o Option) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "gateway option %d", o.kind) }
