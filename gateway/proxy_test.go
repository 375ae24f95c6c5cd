package gateway_test

import (
	"testing"

	"github.com/tierlock/tierlock/internal/way"
)

// The faults of the way to a store.
const (
	pass        = way.None
	loseReplies = way.LoseReplies
	blackHole   = way.BlackHole
	holdBack    = way.HoldBack
	resetReply  = way.ResetReply
	refuse      = way.Refuse
)

// proxy stands between gateways and their Redis.
type proxy = way.Way

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	p, err := way.To(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
