package breaker_test

import (
	"context"
	"runtime"
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

// BenchmarkHandOver is what it costs when eight times as many want to be out as there are
// slots: nearly every one waits, and every slot is handed over.
func BenchmarkHandOver(b *testing.B) {
	s := sensor(b, breaker.Config{Wire: 64})
	ask := breaker.Ask{Strong: true, Deadline: time.Now().Add(time.Hour)}
	b.ReportAllocs()
	b.SetParallelism(512 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := s.Enter(context.Background(), ask)
			if err != nil {
				b.Error(err)
				return
			}
			runtime.Gosched()
			p.Exit(nil)
		}
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
