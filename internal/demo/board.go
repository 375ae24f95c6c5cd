//go:build !nodemo

package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/examples/order"
)

// showBoard draws the board until ctx ends.
func (s *story) showBoard(ctx context.Context) {
	tick := time.NewTicker(s.view.every())
	defer tick.Stop()
	defer s.view.end()
	rates := map[string]*rate{order.Chain: {}, coupon.Chain: {}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.view.show(s.board(rates))
		}
	}
}

func (s *story) board(rates map[string]*rate) board {
	s.mu.Lock()
	b := board{at: time.Since(s.start), phase: s.now}
	s.mu.Unlock()
	for _, chain := range []string{order.Chain, coupon.Chain} {
		c := s.ledger.chains[chain]
		cb := chainBoard{name: chain, requests: c.requests.Load(), conflicts: c.conflicts.Load()}
		cb.rate = rates[chain].of(b.at, cb.requests)
		for _, in := range s.in {
			for _, st := range in.gw.Status().Chains {
				if st.Chain != chain {
					continue
				}
				cb.places = append(cb.places, placeOf(in.name, st))
				if left := time.Until(st.Order.Until); st.Order.Mode != 0 && b.order == "" {
					b.order = fmt.Sprintf("switch  %s %s for %.0f s more: %s", chain, st.Order.Mode, max(left.Seconds(), 0), st.Order.Reason)
				}
			}
		}
		b.chains = append(b.chains, cb)
	}
	return b
}

// rate is how fast a count rose over the last second or so.
type rate struct {
	at    []time.Duration
	count []int64
}

func (r *rate) of(now time.Duration, n int64) float64 {
	r.at, r.count = append(r.at, now), append(r.count, n)
	for len(r.at) > 2 && now-r.at[1] >= time.Second {
		r.at, r.count = r.at[1:], r.count[1:]
	}
	if len(r.at) < 2 {
		return float64(n) / max(now.Seconds(), 0.001)
	}
	return float64(n-r.count[0]) / (now - r.at[0]).Seconds()
}
