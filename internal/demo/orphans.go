//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"time"

	"github.com/tierlock/tierlock"
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

// look counts what is due. A lock found here lives on for its ttl of 60 s, so the count is
// also how many there were at once.
func (o *orphans) look(now time.Time) {
	for _, a := range o.asked {
		due := a.due(now)
		if len(due) == 0 || o.err != nil {
			continue
		}
		ids := make([]tierlock.RequestID, 0, len(due))
		keys := make([]string, 0, len(due))
		for id, key := range due {
			ids = append(ids, id)
			keys = append(keys, key.String())
		}
		values, err := o.peek.values(keys)
		if err != nil {
			o.err = errors.Join(errors.New("orphans were not counted"), err)
			continue
		}
		for i, v := range values {
			if v == ids[i].Secret() {
				o.found++
			}
		}
	}
}
