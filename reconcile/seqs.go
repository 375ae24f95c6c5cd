package reconcile

import "time"

// recent is how many of the latest seqs of one epoch a partition tells apart, to know a
// repeated event from one that comes out of order. Older ones count as repeated. A
// forwarder repeats at most what it had in flight, a few thousand.
const recent = 1 << 15

// log is what has been seen of one epoch. Seqs go on from epoch to epoch, unless the
// producer has lost its folder.
type log struct {
	seen    *[recent / 64]uint64 // a ring: one bit for each of the latest seqs; nil: settled
	settled uint64               // up to it all count as repeated
	highest uint64
	sign    time.Time // its last sign of life
}

func (l *log) has(seq uint64) bool {
	switch {
	case seq > l.highest:
		return false
	case seq+recent <= l.highest || seq <= l.settled:
		return true
	}
	return l.seen[seq%recent/64]&(1<<(seq%64)) != 0
}

func (l *log) add(seq uint64) {
	if seq+recent <= l.highest || seq <= l.settled {
		return
	}
	if l.seen == nil {
		l.seen = new([recent / 64]uint64)
	}
	if seq > l.highest { // places of the ring that were of seqs a round ago
		if seq-l.highest >= recent {
			*l.seen = [recent / 64]uint64{}
		} else {
			for n := l.highest + 1; n < seq; n++ {
				l.seen[n%recent/64] &^= 1 << (n % 64)
			}
		}
		l.highest = seq
	}
	l.seen[seq%recent/64] |= 1 << (seq % 64)
}

// settle lets the ring go: what has not come by now counts as seen. A log that goes on
// begins another.
func (l *log) settle() { l.seen, l.settled = nil, l.highest }
