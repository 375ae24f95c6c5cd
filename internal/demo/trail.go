//go:build !nodemo

package demo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
)

// ref names one hold in little room: the hash of its key and its holder's fingerprint. A
// year of trace has millions of them.
type ref struct{ key, holder uint64 }

func refOf(key tierlock.Key, fingerprint string) ref {
	holder, err := strconv.ParseUint(fingerprint, 16, 64)
	if err != nil {
		holder = 0 // no fingerprint: names nobody's hold
	}
	return ref{key.Hash(), holder}
}

// mark is what the topic told of one hold.
type mark uint8

const (
	markAcquired mark = 1 << iota
	markEnded
	markForced // closed by the log itself: the caller had given up before it had the grant
)

// trail is what the event topic holds, read back whole at the end.
type trail struct {
	events int64 // of holds and optimistic answers, each once
	holds  map[ref]mark
	points int64 // optimistic answers
	breaks int64 // events that do not follow the one they say they follow
}

// readTrail reads the topic from its first offset to its end.
func readTrail(ctx context.Context, brokers []string, topic string) (*trail, error) {
	t := &trail{holds: map[ref]mark{}}
	type line struct {
		producer  string
		partition int
	}
	last := map[line]uint64{}
	err := memkafka.ReadAll(ctx, brokers, topic, func(partition int, key, value []byte) error {
		ev, err := audit.Parse(value)
		if err != nil {
			return fmt.Errorf("partition %d, key %s: %w", partition, key, err)
		}
		at := line{ev.Producer, partition}
		if ev.Seq <= last[at] {
			return nil // delivered again
		}
		if ev.Prev != last[at] {
			t.breaks++
		}
		last[at] = ev.Seq
		t.take(&ev)
		return nil
	})
	return t, err
}

func (t *trail) take(ev *audit.Event) {
	if ev.Type.Marker() {
		return
	}
	t.events++
	hold := refOf(ev.Key, ev.Holder)
	switch ev.Type {
	case audit.TypeAcquire:
		t.holds[hold] |= markAcquired
	case audit.TypeEnd:
		t.holds[hold] |= markEnded
		if ev.How == audit.Forced {
			t.holds[hold] |= markForced
		}
	case audit.TypeOptimistic:
		t.points++
	}
}

// compare holds the trail against what callers got. A grant is missing when its acquire or
// its end is not there; an event is unknown when no caller got its lock, unless the log
// says itself that the caller had given up.
func (t *trail) compare(grants []granted, optimistic int64, r *AuditReport) {
	r.EventsInKafka = t.events
	r.Missing = t.breaks + max(optimistic-t.points, 0)
	r.Unknown = max(t.points-optimistic, 0)
	known := make(map[ref]bool, len(grants))
	for _, g := range grants {
		hold := refOf(g.key, g.id.Fingerprint())
		known[hold] = true
		if t.holds[hold]&(markAcquired|markEnded) != markAcquired|markEnded {
			r.Missing++
		}
	}
	for hold, m := range t.holds {
		if !known[hold] && m&markForced == 0 {
			r.Unknown++
		}
	}
}
