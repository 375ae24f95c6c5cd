package guardtest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/tierlock/tierlock"
)

// Benchmark times a transaction that reads a row and writes it, one after the other on one
// connection: as it is, with a fence entered first, and with the token in the row itself.
// The same token enters each time, as that of one holder does.
func Benchmark(b *testing.B, d Database) {
	s := open(b, d, sql.LevelDefault)
	for _, c := range []struct {
		name  string
		enter entry
	}{{"plain", s.unguarded}, {"fence", s.byFence}, {"row", s.byRow}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := s.cycle(b.Context(), c.enter, 5); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func (s *shop) cycle(ctx context.Context, enter entry, token tierlock.Token) error {
	tx := s.begin(nil)
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := enter(ctx, tx, token); err != nil {
		return err
	}
	n, err := read(ctx, tx)
	if err != nil {
		return err
	}
	if err := write(ctx, tx, n+1); err != nil {
		return err
	}
	return tx.Commit()
}
