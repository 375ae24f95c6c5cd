package reconcile

import (
	"math/rand/v2"
	"testing"
)

// The ring of seqs answers as a set of all of them would, for the latest of them; older
// ones count as seen.
func TestSeqsAreToldApart(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l, seen, high := &log{}, map[uint64]bool{}, uint64(0)
		for n := uint64(1 + rng.IntN(1<<20)); len(seen) < 3000; {
			switch rng.IntN(50) {
			case 0:
				n += uint64(rng.IntN(3 * recent)) // a hole
			default:
				n += uint64(rng.IntN(30))
			}
			seq := n - min(n-1, uint64(rng.IntN(200))) // out of order
			if old := high >= recent && seq <= high-recent; l.has(seq) != (seen[seq] || old) {
				t.Fatalf("seed %d: seq %d of %d is seen: %v", seed, seq, high, l.has(seq))
			}
			l.add(seq)
			seen[seq] = true
			high = max(high, seq)
			if !l.has(seq) {
				t.Fatalf("seed %d: seq %d of %d is forgotten at once", seed, seq, high)
			}
		}
	}
}
