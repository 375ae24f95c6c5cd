package incident

import (
	"sort"
	"time"
)

// pageBits is how many seqs one page of a [seqs] tells apart.
const pageBits = 4096

// seqs are the seqs that were seen of one epoch: one bit each.
type seqs map[uint64]*[pageBits / 64]uint64

// add tells whether n is new.
func (s seqs) add(n uint64) bool {
	page := s[n/pageBits]
	if page == nil {
		page = new([pageBits / 64]uint64)
		s[n/pageBits] = page
	}
	bit := uint64(1) << (n % 64)
	word := &page[n%pageBits/64]
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// has tells whether n was seen.
func (s seqs) has(n uint64) bool {
	page := s[n/pageBits]
	return page != nil && page[n%pageBits/64]&(1<<(n%64)) != 0
}

// moments tell when seqs were written, as far as markers do: a producer's seqs rise with
// its time.
type moments []moment

type moment struct {
	seq uint64
	at  time.Time
}

// add takes a marker; most come in order.
func (m *moments) add(seq uint64, at time.Time) {
	list := *m
	i := len(list)
	if i > 0 && list[i-1].seq >= seq {
		i = sort.Search(len(list), func(i int) bool { return list[i].seq >= seq })
		if i < len(list) && list[i].seq == seq {
			return
		}
	}
	list = append(list, moment{})
	copy(list[i+1:], list[i:])
	list[i] = moment{seq, at}
	*m = list
}

// around is when from ≤ seq ≤ to were written: after before and before after. Zero: no
// marker tells.
func (m moments) around(from, to uint64) (before, after time.Time) {
	if i := sort.Search(len(m), func(i int) bool { return m[i].seq >= from }); i > 0 {
		before = m[i-1].at
	}
	if i := sort.Search(len(m), func(i int) bool { return m[i].seq > to }); i < len(m) {
		after = m[i].at
	}
	return before, after
}

// since is the last marker before at, and the one before that where there is one.
func (m moments) since(at time.Time) time.Time {
	i := sort.Search(len(m), func(i int) bool { return !m[i].at.Before(at) })
	switch {
	case i >= 2:
		return m[i-2].at
	case i == 1:
		return m[0].at
	}
	return time.Time{}
}
