package daemon

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// oncePatience bounds how long a run with --once waits for servers, and then for its
// partitions: as long as a group may take to give up on a member that died, and more.
const oncePatience = time.Minute

// readOnce is a source that ends when everything that is in it has been read.
type readOnce struct {
	reconcile.Source
	patience time.Duration // for the first partition
	since    time.Time     // the first Next, or when the partitions were taken away
	joined   bool
	behind   map[int]bool // assigned, and not caught up yet
}

// Next implements [reconcile.Source].
func (o *readOnce) Next(ctx context.Context) (reconcile.Batch, error) {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	switch {
	case o.joined && len(o.behind) == 0:
		return reconcile.Batch{}, io.EOF
	case !o.joined && time.Since(o.since) > o.patience:
		return reconcile.Batch{}, fmt.Errorf("no partition was assigned within %s: does another member of reconcile.group have them all?", o.patience)
	}
	b, err := o.Source.Next(ctx)
	if len(b.Revoked) > 0 { // read or not: the next assignment says what is left to this member
		o.joined, o.since = false, time.Now()
		clear(o.behind)
	}
	for _, m := range b.Assigned {
		o.joined, o.behind[m.Partition] = true, true
	}
	for _, p := range b.CaughtUp {
		delete(o.behind, p)
	}
	return b, err
}

// Working implements [reconcile.Worker].
func (o *readOnce) Working() {
	if worker, is := o.Source.(reconcile.Worker); is {
		worker.Working()
	}
}

// Rewind implements [reconcile.Source]: the partition is behind again until all of it has
// been read once more.
func (o *readOnce) Rewind(ctx context.Context, partition int) error {
	o.behind[partition] = true
	return o.Source.Rewind(ctx, partition)
}
