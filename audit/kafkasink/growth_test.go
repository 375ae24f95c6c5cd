package kafkasink_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/internal/servers"
)

// tells is whether a log has told of more partitions.
type tells struct{ atomic.Bool }

func (t *tells) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("more partitions")) {
		t.Store(true)
	}
	return len(line), nil
}

// TestRealKafkaThatGetsMorePartitionsUnderLoad: a log that is open goes on to spread keys over
// the number it asked for, so that no key moves under its holder, and beats in every
// partition soon; with the next Open keys move. Nothing is lost, and no chain of prevs breaks.
func TestRealKafkaThatGetsMorePartitionsUnderLoad(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t).Addr()
	const topic, before, after, keys = "grown.events", 3, 7, 40
	dir := t.TempDir()
	told := new(tells)
	open := func() *audit.Log {
		t.Helper()
		sink := newSink(t, kafkasink.Config{Brokers: []string{broker}, Topic: topic, Findings: "grown.findings", Partitions: before})
		l, err := audit.Open(audit.Config{Dir: dir, Producer: "shop-1", Sink: sink, Heartbeat: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(told, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	shut := func(l *audit.Log) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := l.Drain(ctx); err != nil {
			t.Errorf("drain: %v, %+v", err, l.Stats())
		}
		if err := l.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	record := func(l *audit.Log, n int) {
		t.Helper()
		for i := range n {
			ev, err := grant(i%keys, i)
			if err == nil {
				err = l.Record(t.Context(), &ev)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	l := open()
	record(l, 500)
	waitFor(t, "some to arrive", func() bool { return l.Stats().Sent > 100 })
	req := kmsg.NewPtrCreatePartitionsRequest()
	grow := kmsg.NewCreatePartitionsRequestTopic()
	grow.Topic, grow.Count = topic, after
	req.Topics = append(req.Topics, grow)
	if res, err := req.RequestWith(t.Context(), client(t, broker)); err != nil || res.Topics[0].ErrorCode != 0 {
		t.Fatal(err, res)
	}
	record(l, 1000)
	waitFor(t, "the number to be asked for again", told.Load)
	record(l, 500)
	shut(l)
	seam := l.Stats().Sent
	l = open()
	record(l, 500)
	shut(l)

	var chain audit.Chain
	last, where, found := map[string]uint64{}, map[string]int{}, 0
	hellos, beats, seals := map[int]bool{}, map[int]bool{}, map[int]bool{}
	err := memkafka.ReadAll(t.Context(), []string{broker}, topic, func(p int, _, value []byte) error {
		ev, err := audit.Parse(value)
		if err != nil {
			return err
		}
		if !chain.Add(p, &ev) && !ev.Type.Marker() {
			return nil
		}
		width, life := before, "first"
		if ev.Seq > seam {
			width, life = after, "second"
		}
		if ev.Type.Marker() {
			switch {
			case ev.Type == audit.TypeHello && ev.Seq > seam:
				hellos[p] = true
			case ev.Type == audit.TypeHeartbeat && ev.Seq <= seam:
				beats[p] = true
			case ev.Type == audit.TypeSeal && ev.Seq <= seam:
				seals[p] = true
			}
			return nil
		}
		found++
		key := ev.Key.String()
		id := fmt.Sprint(life, " ", key)
		if ev.Seq <= last[id] {
			t.Errorf("%s: %d after %d", id, ev.Seq, last[id])
		}
		last[id], where[id] = ev.Seq, p
		if p != audit.PartitionOf(key, width) {
			t.Errorf("%s lies in partition %d", id, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i := range keys {
		if key := fmt.Sprint("biz:coupon:lock:", i); where["first "+key] != where["second "+key] {
			moved++
		}
	}
	if found != 2500 || moved == 0 || len(hellos) != after || len(beats) != after || len(seals) != after {
		t.Errorf("%d of 2500 events, %d keys moved, hellos in %v; of the first life heartbeats in %v, its seal in %v", found, moved, hellos, beats, seals)
	}
	for _, a := range chain.Accounts() {
		if !a.Complete() {
			t.Errorf("%+v", a)
		}
	}
}
