package audit

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock/audit/spool"
)

// sayHello begins the epoch: hello, then what is known of the epoch before. An epoch that
// its own process did not seal is sealed now, and is a gap after its last event: what
// nobody had waited for may be lost, and nobody knows how much. All of it is durable
// together, or else the next Open would take this epoch for the one to seal.
func (l *Log) sayHello() error {
	now := time.Now()
	events := []Event{{Type: TypeHello, At: now}}
	former := l.spool.Former()
	crashed := former.Epoch != 0 && !cleanlySealed(former.Record)
	if crashed {
		events = append(events,
			Event{Type: TypeSeal, At: now, Sealed: former.Epoch, First: former.First, Last: former.Last},
			Event{Type: TypeGap, At: now, Cause: CauseCrash, From: former.Last + 1})
	}
	var records [][]byte
	for i := range events {
		records = append(records, events[i].appendBody(nil))
	}
	ctx, cancel := context.WithTimeout(context.Background(), markerWait)
	defer cancel()
	if _, err := l.spool.AppendAll(ctx, records, spool.Closing); err != nil {
		return err
	}
	if crashed {
		l.log.Warn("the log was not closed last time", slog.Uint64("epoch", former.Epoch), slog.Uint64("last", former.Last), slog.Int64("torn_bytes", former.Torn))
		l.wroteGap(events[2])
	}
	return nil
}

func cleanlySealed(record []byte) bool {
	y, err := parseBody(record)
	return err == nil && y.kind == TypeSeal && bytes.Contains(y.tail, []byte(`"clean":true`))
}

// sealOwn ends the epoch. Nothing of it comes after the seal, which does not count itself.
func (l *Log) sealOwn() error {
	ctx, cancel := context.WithTimeout(context.Background(), markerWait)
	defer cancel()
	if l.news.waits() {
		l.heartbeat(ctx)
	}
	l.writeGaps(ctx)
	return l.spool.Finish(ctx, func(last uint64) []byte {
		seal := Event{Type: TypeSeal, At: time.Now(), Sealed: l.spool.Epoch(), First: l.first, Last: last, Clean: true}
		return seal.appendBody(nil)
	})
}

// markerWait bounds the writing of a marker.
const markerWait = 5 * time.Second

// mark writes a marker and waits until it is durable.
func (l *Log) mark(ctx context.Context, ev *Event) error {
	ev.At = time.Now()
	_, err := l.spool.Append(ctx, ev.appendBody(nil), roomOf(ev.Type))
	return err
}

// gap writes a gap event.
func (l *Log) gap(ctx context.Context, ev Event) error {
	ev.Type = TypeGap
	if err := l.mark(ctx, &ev); err != nil {
		return err
	}
	l.wroteGap(ev)
	return nil
}

func (l *Log) wroteGap(ev Event) {
	l.count.gaps.Add(1)
	l.log.Error("events are missing", slog.String("cause", string(ev.Cause)), slog.Uint64("from", ev.From), slog.Uint64("to", ev.To), slog.Uint64("count", ev.Count))
	if l.cfg.Hooks.Gap != nil {
		l.cfg.Hooks.Gap(ev)
	}
}

// gapRetry is how soon a gap event that could not be written is tried again.
const gapRetry = 500 * time.Millisecond

// pulse writes a heartbeat every Heartbeat and as soon as there is news, and a gap event as
// soon as events were lost.
func (l *Log) pulse(ctx context.Context) {
	beat := time.NewTicker(l.cfg.Heartbeat)
	defer beat.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			l.heartbeat(ctx)
		case <-l.news.come:
			l.heartbeat(ctx)
		case <-l.lossy:
		case <-retry.C:
		}
		if !l.writeGaps(ctx) {
			retry.Reset(gapRetry)
		}
	}
}

func (l *Log) heartbeat(ctx context.Context) {
	ev := Event{Type: TypeHeartbeat, First: l.first, Last: l.spool.Stats().Durable}
	if l.fwd != nil {
		ev.Oldest = l.fwd.oldestUnsent()
	}
	if status := l.describe.Load(); status != nil {
		s := (*status)()
		ev.Applied, ev.PolicyHash, ev.Tiers = s.Applied, s.PolicyHash, s.Tiers
		ev.Refused = s.Refused
	}
	ev.Steps, ev.Replaced = l.news.take()
	if err := l.mark(ctx, &ev); err != nil {
		l.news.untold(ev.Steps, ev.Replaced)
		if ctx.Err() == nil {
			l.log.Warn("heartbeat not written", slog.Any("error", err))
		}
	}
}

// writeGaps turns counted losses into gap events; false: try again later. A count whose
// event is in doubt is kept and told once more: too many is better than silence.
func (l *Log) writeGaps(ctx context.Context) bool {
	ok := l.writeGap(ctx, CauseFull, &l.unsaid.full)
	return l.writeGap(ctx, CauseOverflow, &l.unsaid.overflow) && ok
}

func (l *Log) writeGap(ctx context.Context, cause Cause, unsaid *atomic.Uint64) bool {
	n := unsaid.Swap(0)
	if n == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, markerWait)
	defer cancel()
	if err := l.gap(ctx, Event{Cause: cause, Count: n}); err != nil {
		unsaid.Add(n)
		return false
	}
	return true
}
