//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

const orphanEvery = 200 * time.Millisecond

// orphans counts locks that stand in the store though their caller got none. It asks
// through its own connection, past the proxy.
type orphans struct {
	peek  *peek
	asked []*asked
	found int
	err   error
}

// run looks again and again until ctx ends.
func (o *orphans) run(ctx context.Context) {
	tick := time.NewTicker(orphanEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.look(time.Now())
		}
	}
}

// look forgets what the store has no more, counts what stands too long, and tells how many
// stand and are not late yet. A lock counted here lives on for its ttl of 60 s, so the count
// is also how many there were at once.
func (o *orphans) look(now time.Time) (open int) {
	for _, a := range o.asked {
		suspects := a.suspects(now)
		if len(suspects) == 0 || o.err != nil {
			continue
		}
		ids := slices.Collect(maps.Keys(suspects))
		keys := make([]string, len(ids))
		for i, id := range ids {
			keys[i] = suspects[id].key.String()
		}
		values, err := o.peek.values(keys)
		if err != nil {
			o.err = errors.Join(errors.New("orphans were not counted"), err)
			return 0
		}
		for i, id := range ids {
			switch {
			case values[i] != id.Secret():
			case !suspects[id].late:
				open++
				continue
			default:
				o.found++
			}
			a.forget(id)
		}
	}
	return open
}
