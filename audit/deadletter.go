package audit

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
)

// sort keeps the messages that must be sent again, in order. Poison goes to the
// dead-letter destination, and what even that refuses becomes a gap event. sends is how often
// they have been sent.
func (f *forwarder) sort(ctx context.Context, msgs []Message, errs []error, sends int) (left []Message, first error) {
	for i, m := range msgs {
		switch err := errs[i]; {
		case err == nil:
			f.count.delivered.Add(1)
		case !errors.Is(err, ErrPoison):
			left = append(left, m)
			if first == nil {
				first = err
			}
		default:
			if m, ok := f.bury(ctx, m, err, sends); ok {
				left = append(left, m)
			}
		}
	}
	return left, first
}

// bury makes m a dead letter; false: it was one already, cut short, and is given up. What
// is given up becomes a gap event, but not where it is a marker: gap events are markers
// too, and each goes to every partition, so that a destination which refuses them would
// make more of them for ever. A missing marker shows by the next event's prev.
func (f *forwarder) bury(ctx context.Context, m Message, why error, sends int) (Message, bool) {
	id := headerValue(m.Headers, "ce_id")
	if m.Dead == "" {
		f.count.dead.Add(1)
		f.l.log.Error("event goes to the dead letters", slog.String("id", id), slog.Any("error", why))
		if f.l.cfg.Hooks.Dead != nil {
			f.l.cfg.Hooks.Dead(id, why.Error())
		}
		m.Dead, m.DeadClass, m.Attempts = why.Error(), ClassRefused, sends
		if errors.Is(why, ErrTooLarge) {
			m.DeadClass = ClassTooLarge
		}
		return m, true
	}
	if len(m.Value) > deadClip {
		m.Value = m.Value[:deadClip]
		m.Dead += "; value cut to 65536 bytes"
		return m, true
	}
	seq, _ := strconv.ParseUint(id[strings.LastIndexByte(id, '/')+1:], 10, 64) // our own text
	if kind := Type(strings.TrimPrefix(headerValue(m.Headers, "ce_type"), "tierlock.")); kind.Marker() {
		f.l.log.Error("marker refused by the dead letters too, and given up", slog.String("id", id), slog.Any("error", why))
		return m, false
	}
	if err := f.l.gap(ctx, Event{Cause: CauseDead, From: seq, To: seq, Count: 1}); err != nil {
		return m, true
	}
	f.l.log.Error("dead letter refused and given up", slog.String("id", id), slog.Any("error", why))
	return m, false
}

// deadClip is how much is kept of a dead letter that is itself too large.
const deadClip = 64 << 10

func headerValue(headers []Header, key string) string {
	for _, h := range headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
