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
	for {
		select {
		case <-l.notes.wake:
			l.writeAll()
		case asked := <-l.flushes:
			l.writeAll()
			close(asked)
		}
		if l.notes.closed.Load() {
			l.writeAll()
			return
		}
		gather.Reset(rest)
		select {
		case <-gather.C:
		case asked := <-l.flushes:
			l.writeAll()
			close(asked)
		}
	}
}

func (l *Log) writeAll() {
	var ev Event
	buf := l.buffer()
	defer l.bodies.Put(buf)
	for i := range l.notes.stripes {
		for p := l.notes.stripes[i].take(); p != nil; p = p.done() {
			for j := range p.notes[:p.n] {
				p.notes[j].fill(&ev)
				*buf = l.writeOne(&ev, (*buf)[:0])
			}
		}
	}
}

// writeOne writes ev, and returns the room that it was given for it.
func (l *Log) writeOne(ev *Event, room []byte) []byte {
	if err := checkRecorded(ev); err != nil {
		l.log.Error("event refused", slog.Any("error", err))
		return room
	}
	room = l.body(ev, room)
	if err := l.spool.Add(context.Background(), room, roomOf(ev.Type)); err != nil {
		if !errors.Is(err, ErrFull) && !errors.Is(err, ErrFailed) {
			l.log.Error("event refused", slog.Any("error", err))
		}
		l.dropped(1)
		return room
	}
	l.count.noted.Add(1)
	return room
}
