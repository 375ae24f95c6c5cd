package audit

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// rest is how long notes may gather after some were written. Without it each note of a quiet
// process woke the writer, and that the disk's, which cost as much as the lock itself. It is
// what a crash may take beyond what the disk has not acknowledged yet, and short enough that
// the busiest process fills a fraction of the room for notes meanwhile.
const rest = time.Millisecond

// write moves notes to the spool until they are closed and none is left. It waits for
// the disk when that is slow; the notes' own bound is what callers meet then.
//
// It asks the notes and not the log whether that is so: between the first step of Close
// and the closing of the last stripe a note may still be taken, and whoever left in
// between would leave it behind, in no event and in no count.
func (l *Log) write() {
	defer close(l.written)
	gather := time.NewTimer(rest)
	defer gather.Stop()
	var spare []Event
	for {
		select {
		case <-l.notes.wake:
			spare = l.writeAll(spare)
		case asked := <-l.flushes:
			spare = l.writeAll(spare)
			close(asked)
		}
		if l.notes.closed.Load() {
			l.writeAll(spare)
			return
		}
		gather.Reset(rest)
		select {
		case <-gather.C:
		case asked := <-l.flushes:
			spare = l.writeAll(spare)
			close(asked)
		}
	}
}

func (l *Log) writeAll(spare []Event) []Event {
	for i := range l.notes.stripes {
		events := l.notes.stripes[i].take(spare)
		for j := range events {
			l.writeOne(&events[j])
		}
		clear(events) // let go of what they point to
		spare = events
	}
	return spare
}

func (l *Log) writeOne(ev *Event) {
	if err := checkRecorded(ev); err != nil {
		l.log.Error("event refused", slog.Any("error", err))
		return
	}
	buf := l.buffer()
	defer l.bodies.Put(buf)
	*buf = l.body(ev, (*buf)[:0])
	if err := l.spool.Add(context.Background(), *buf, roomOf(ev.Type)); err != nil {
		if !errors.Is(err, ErrFull) && !errors.Is(err, ErrFailed) {
			l.log.Error("event refused", slog.Any("error", err))
		}
		l.dropped(1)
		return
	}
	l.count.noted.Add(1)
}
