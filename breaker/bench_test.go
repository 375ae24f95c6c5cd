package breaker_test

import (
	"context"
	"testing"
	"time"

	"github.com/tierlock/tierlock/breaker"
)

// BenchmarkEnterExit is what a healthy request pays for being sensed.
func BenchmarkEnterExit(b *testing.B) {
	s := sensor(b, breaker.Config{})
	ctx := context.Background()
	ask := breaker.Ask{Deadline: time.Now().Add(time.Hour)}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			p, err := s.Enter(ctx, ask)
			if err != nil {
				b.Fatal(err)
			}
			p.Exit(nil)
		}
	})
	b.Run("crowd", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(256)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p, err := s.Enter(ctx, ask)
				if err != nil {
					b.Error(err)
					return
				}
				p.Exit(nil)
			}
		})
	})
}

func TestEnterAndExitAllocateNothing(t *testing.T) {
	s := sensor(t, breaker.Config{})
	ask := breaker.Ask{Deadline: time.Now().Add(time.Hour)}
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := s.Enter(t.Context(), ask)
		p.Exit(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
