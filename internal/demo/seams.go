//go:build !nodemo

package demo

import (
	"context"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/guard"
	"github.com/tierlock/tierlock/reconcile"
)

// Seams are the places where the story can be made to lie. The zero Seams are honest. Each
// lie must turn the report's ok to false: that is what shows that the report can see.
type Seams struct {
	// Store wraps what each gateway takes its locks from.
	Store func(tierlock.Backend) tierlock.Backend
	// Recorder wraps where each gateway writes its events.
	Recorder func(audit.Recorder) audit.Recorder
	// Rule is what the reconciliation calls an overlap.
	Rule reconcile.Rule
	// Enter is the token guard of the stock; nil is guard.Enter.
	Enter func(ctx context.Context, tx guard.Tx, d guard.Dialect, key tierlock.Key, token tierlock.Token) error
}

func (s Seams) store(b tierlock.Backend) tierlock.Backend {
	if s.Store == nil {
		return b
	}
	return s.Store(b)
}

// recorder wraps log. What heartbeats tell comes from the gateway through the methods below,
// which the wrapping must not hide.
func (s Seams) recorder(log *audit.Log) audit.Recorder {
	if s.Recorder == nil {
		return log
	}
	return described{s.Recorder(log), log}
}

type described struct {
	audit.Recorder
	log *audit.Log
}

func (d described) Describe(status func() audit.Status) { d.log.Describe(status) }
func (d described) Stepped(s audit.Step)                { d.log.Stepped(s) }
func (d described) Replaced(r audit.Replaced)           { d.log.Replaced(r) }
