package gateway_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// checkTally checks what a worker counted.
func checkTally(t *testing.T, s tally) {
	t.Helper()
	var sum int64
	for _, n := range s.Outcomes {
		sum += n
	}
	if s.Calls == 0 || s.Told != s.Calls || sum != s.Calls {
		t.Errorf("%d calls, %d told, outcomes %v", s.Calls, s.Told, s.Outcomes)
	}
	if soakRounds() > 1 && s.P99 > 220*time.Millisecond {
		t.Errorf("p99 of %d answers is %v (most %v)", s.Calls, s.P99, s.Most)
	}
	if s.Leaked > 0 || s.InDoubt > 0 || s.Closed != "<nil>" {
		t.Errorf("after close: %d goroutines, %d in doubt, %s", s.Leaked, s.InDoubt, s.Closed)
	}
	t.Logf("%d calls %v, p99 %v, most %v, %d over 220 ms", s.Calls, s.Outcomes, s.P99, s.Most, s.Late)
}

// checkOneProcess looks for a local hold beside another hold of the same process, which
// has one permit.
func checkOneProcess(t *testing.T, holds []hold) {
	t.Helper()
	eachPair(holds, func(a, b hold) {
		t.Errorf("one process: %s hold of %s for %v beside a %s one", a.Tier, a.Key, time.Duration(a.To-b.From), b.Tier)
	})
}

// overlaps counts the pairs of shared holds of one key that met, and checks that of two the
// later has the greater token.
func overlaps(t *testing.T, holds []hold) (n int) {
	t.Helper()
	shared := slices.DeleteFunc(slices.Clone(holds), func(h hold) bool { return h.Tier != tierlock.Shared.String() })
	eachPair(shared, func(hold, hold) { n++ })
	last := map[string]hold{}
	for _, h := range shared { // sorted by eachPair
		if before := last[h.Key]; h.Token != 0 && h.Token <= before.Token {
			t.Errorf("%s: token %d after %d", h.Key, h.Token, before.Token)
		}
		last[h.Key] = h
	}
	return n
}

// eachPair sorts holds by their beginning and tells each pair of one key that met.
func eachPair(holds []hold, met func(a, b hold)) {
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.From, b.From) })
	last := map[string]hold{}
	for _, h := range holds {
		if before, ok := last[h.Key]; ok && h.From < before.To {
			met(before, h)
			if h.To < before.To {
				continue
			}
		}
		last[h.Key] = h
	}
}

// look is what stood in Redis at a moment, and still did 300 ms later.
type look struct {
	after string
	at    int64
	keys  map[string]string // key to the holder's fingerprint
}

func lookAt(t *testing.T, client *redis.Client, after string) look {
	t.Helper()
	first := holders(t, client)
	began, within := time.Now(), 300*time.Millisecond
	if soakRounds() == 1 { // its time is not judged, but that it is given back well before its ttl
		within = 5 * time.Second
	}
	for len(first) > 0 && time.Since(began) < within {
		pause(300 * time.Millisecond)
		second := holders(t, client)
		for key, holder := range first {
			if second[key] != holder {
				delete(first, key)
			}
		}
	}
	return look{after, began.UnixNano(), first}
}

// check finds the keys that nobody held when they were looked at.
func (l look) check(t *testing.T, holds []hold) {
	t.Helper()
	for key, holder := range l.keys {
		if !slices.ContainsFunc(holds, func(h hold) bool {
			return h.Key == key && h.Holder == holder && l.at < h.To+int64(time.Second)
		}) {
			t.Errorf("after %s: %s is held by %s, who is nobody", l.after, key, holder)
		}
	}
}

func holders(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	found := map[string]string{}
	keys, err := client.Keys(context.Background(), "biz:*:lock:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range locksOf(keys) {
		if id, err := tierlock.ParseRequestID(client.Get(context.Background(), key).Val()); err == nil {
			found[key] = id.Fingerprint()
		}
	}
	return found
}

// locksOf leaves the records beside the locks out.
func locksOf(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "{") })
}

// dials samples how many connections were accepted in any five seconds.
type dials struct {
	stop chan struct{}
	done chan int
}

func newDials(p *proxy) dials {
	d := dials{make(chan struct{}), make(chan int, 1)}
	go func() {
		const step, window = 100 * time.Millisecond, 50
		var seen []int64
		most := int64(0)
		tick := time.NewTicker(step)
		defer tick.Stop()
		for {
			select {
			case <-d.stop:
				d.done <- int(most)
				return
			case <-tick.C:
				now := p.Accepted()
				seen = append(seen, now)
				most = max(most, now-seen[max(0, len(seen)-1-window)])
			}
		}
	}()
	return d
}

func (d dials) most() int {
	close(d.stop)
	return <-d.done
}
