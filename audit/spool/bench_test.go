package spool_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tierlock/tierlock/audit/spool"
)

// BenchmarkAppend512 is 512 callers who each wait for the disk.
func BenchmarkAppend512(b *testing.B) {
	s, err := spool.Open(spool.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	rec := make([]byte, 400)
	var n atomic.Int64
	b.SetParallelism(256)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Append(context.Background(), rec, spool.Ordinary); err != nil {
				b.Error(err)
				return
			}
			n.Add(1)
			if n.Load()%200000 == 0 {
				_ = s.Trim(s.Stats().Durable)
			}
		}
	})
	st := s.Stats()
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(st.Records)/float64(st.Syncs), "records/sync")
}
