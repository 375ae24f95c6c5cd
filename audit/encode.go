package audit

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tierlock/tierlock"
)

// formatVersion is the "v" of every event; a reader refuses a higher one.
const formatVersion = 1

// AppendJSON appends the event's JSON to b and returns it. It is the one encoder: written
// by hand, without reflection and without allocation beyond b.
func (e *Event) AppendJSON(b []byte) []byte {
	b = appendHead(b, e.Type, e.Producer, e.Epoch, e.Seq, e.Prev)
	b = e.appendTail(b)
	return append(b, '}')
}

// MarshalJSON is [Event.AppendJSON] for encoding/json. It never fails.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// appendHead appends what is known only when the event is sent: its place in the log and
// in its partition. The tail, known at once, is what the spool stores.
func appendHead(b []byte, t Type, producer string, epoch, seq, prev uint64) []byte {
	b = append(b, `{"v":1,"type":`...)
	b = appendString(b, string(t))
	b = append(b, `,"id":`...)
	b = appendString(b, producer)
	b = b[:len(b)-1] // the closing quote: the id goes on
	b = strconv.AppendUint(append(b, '/'), epoch, 10)
	b = strconv.AppendUint(append(b, '/'), seq, 10)
	b = append(b, `","producer":`...)
	b = appendString(b, producer)
	b = appendUint(b, `,"epoch":`, epoch)
	b = appendUint(b, `,"seq":`, seq)
	return appendUint(b, `,"prev":`, prev)
}

// appendTail appends every field after prev, each with its comma in front.
func (e *Event) appendTail(b []byte) []byte {
	if e.Type.Marker() {
		b = e.appendMarker(b)
	} else {
		b = e.appendHold(b)
	}
	if len(e.Extra) == 0 {
		return b
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		b = appendString(append(b, ','), name)
		b = append(append(b, ':'), e.Extra[name]...)
	}
	return b
}

// appendHold appends the fields of acquire, end and optimistic.
func (e *Event) appendHold(b []byte) []byte {
	b = appendText(b, `,"chain":`, e.Chain)
	b = appendText(b, `,"key":`, e.Key.String())
	b = e.appendHolder(b)
	b = appendText(b, `,"tier":`, e.Tier.String())
	if e.Type == TypeAcquire {
		b = appendText(b, `,"store":`, e.Store)
		b = append(b, `,"exclusive":`...)
		b = strconv.AppendBool(b, e.Exclusive)
		b = appendToken(b, e.Token)
	} else {
		if e.Type == TypeEnd {
			b = appendText(b, `,"how":`, string(e.How))
		}
		b = appendText(b, `,"outcome":`, string(cmp.Or(e.Outcome, Unknown)))
		if e.Token != 0 {
			b = appendToken(b, e.Token)
		}
	}
	b = appendTime(b, `,"granted_at":`, e.GrantedAt)
	if !e.EndedAt.IsZero() {
		b = appendTime(b, `,"ended_at":`, e.EndedAt)
	}
	if e.Type == TypeAcquire || e.TTL > 0 {
		b = appendInt(b, `,"ttl_ms":`, e.TTL.Milliseconds())
	}
	if e.MaxHold > 0 {
		b = appendInt(b, `,"max_hold_ms":`, e.MaxHold.Milliseconds())
	}
	b = appendInt(b, `,"clock_error_us":`, e.ClockError.Microseconds())
	if e.Reason != "" {
		b = appendText(b, `,"reason":`, string(e.Reason))
	}
	if e.Switch != (Switch{}) {
		b = append(b, `,"switch":{"version":`...)
		b = strconv.AppendUint(b, e.Switch.Version, 10)
		b = appendText(b, `,"reason":`, e.Switch.Reason)
		b = append(b, '}')
	}
	if !e.Business.IsZero() {
		b = e.Business.append(b)
	}
	return b
}

// appendHolder appends the fingerprint, computed where only the id is known.
func (e *Event) appendHolder(b []byte) []byte {
	if e.Holder != "" || e.ID.IsZero() {
		return appendText(b, `,"holder":`, e.Holder)
	}
	return append(e.ID.AppendFingerprint(append(b, `,"holder":"`...)), '"')
}

func (b *Business) append(to []byte) []byte {
	to = append(to, `,"business":{"type":`...)
	to = appendString(to, b.Type)
	to = appendText(to, `,"id":`, b.ID)
	if b.Op != "" {
		to = appendText(to, `,"op":`, b.Op)
	}
	if b.Delta != 0 {
		to = appendInt(to, `,"delta":`, b.Delta)
	}
	if b.Before != nil {
		to = appendInt(to, `,"before":`, *b.Before)
	}
	if b.After != nil {
		to = appendInt(to, `,"after":`, *b.After)
	}
	return append(to, '}')
}

// appendMarker appends the fields of hello, heartbeat, seal and gap.
func (e *Event) appendMarker(b []byte) []byte {
	b = appendTime(b, `,"at":`, e.At)
	switch e.Type {
	case TypeHeartbeat:
		b = appendUint(b, `,"first":`, e.First)
		b = appendUint(b, `,"last":`, e.Last)
		if !e.Oldest.IsZero() {
			b = appendTime(b, `,"oldest_unsent":`, e.Oldest)
		}
		b = appendUint(b, `,"switch_version":`, e.Applied)
		b = e.Refused.append(b)
		b = appendText(b, `,"policy_hash":`, e.PolicyHash)
		b = append(b, `,"tiers":{`...)
		for i, chain := range slices.Sorted(maps.Keys(e.Tiers)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, chain)
			b = appendString(append(b, ':'), e.Tiers[chain])
		}
		b = e.appendNews(append(b, '}'))
	case TypeSeal:
		b = appendUint(b, `,"sealed":`, e.Sealed)
		b = appendUint(b, `,"first":`, e.First)
		b = appendUint(b, `,"last":`, e.Last)
		b = append(b, `,"clean":`...)
		b = strconv.AppendBool(b, e.Clean)
	case TypeGap:
		b = appendText(b, `,"cause":`, string(e.Cause))
		b = appendUint(b, `,"from":`, e.From)
		b = appendUint(b, `,"to":`, e.To)
		b = appendUint(b, `,"count":`, e.Count)
	}
	return b
}

// append writes the counts, nothing where there are none.
func (r Refused) append(b []byte) []byte {
	if len(r) == 0 {
		return b
	}
	b = append(b, `,"refused":{`...)
	for i, chain := range slices.Sorted(maps.Keys(r)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, chain), ":{"...)
		for j, answer := range slices.Sorted(maps.Keys(r[chain])) {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, answer), ':')
			b = strconv.AppendUint(b, r[chain][answer], 10)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// Names come as they stand in the text, with comma, quotes and colon: one piece to copy
// instead of four.

func appendText(b []byte, name, v string) []byte { return appendString(append(b, name...), v) }

func appendUint(b []byte, name string, v uint64) []byte {
	return strconv.AppendUint(append(b, name...), v, 10)
}

func appendInt(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(append(b, name...), v, 10)
}

// appendToken writes null for no token, so that 0 never reads as the lowest of them.
func appendToken(b []byte, t tierlock.Token) []byte {
	if t == 0 {
		return append(b, `,"token":null`...)
	}
	return appendUint(b, `,"token":`, uint64(t))
}

// timeFormat is RFC 3339 with exactly six digits.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// appendTime writes UTC with exactly six digits of a second, so that times sort as text.
func appendTime(b []byte, name string, t time.Time) []byte {
	b = append(append(b, name...), '"')
	return append(appendStamp(b, t), '"')
}

// appendStamp is t in timeFormat, by hand: a third of an event's cost was AppendFormat.
func appendStamp(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(b, timeFormat)
	}
	hour, minute, second := t.Clock()
	b = appendDigits(b, year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), second, 2)
	b = appendDigits(append(b, '.'), t.Nanosecond()/1000, 6)
	return append(b, 'Z')
}

// appendDigits writes v with leading zeroes.
func appendDigits(b []byte, v, width int) []byte {
	b = append(b, "000000"[:width]...)
	for i := len(b) - 1; v > 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return b
}

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string. Bytes that are no UTF-8 become U+FFFD, as
// encoding/json does; markup is left as it is.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if !plain(s[i]) {
			return appendEscaped(b, s, i)
		}
	}
	b = append(b, s...)
	return append(b, '"')
}

// plain tells whether a byte stands for itself.
func plain(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// appendEscaped writes s, whose bytes before i are plain, and the closing quote.
func appendEscaped(b []byte, s string, i int) []byte {
	done := 0 // s[done:i] needs no change
	for i < len(s) {
		c := s[i]
		if plain(c) {
			i++
			continue
		}
		b = append(b, s[done:i]...)
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			i++
		}
		done = i
	}
	return append(append(b, s[done:]...), '"')
}
