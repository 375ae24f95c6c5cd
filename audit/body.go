package audit

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// A record in the spool is an event without its place in the log and in its partition,
// which are known only when it is written and sent: version (1), type (1), time in
// microseconds (8, little endian), length of the key (2), the key, and the JSON that
// follows "prev".
const (
	bodyVersion = 1
	bodyHead    = 1 + 1 + 8 + 2
)

// typeCodes number the types on the disk; the first has code 1. Append only.
var typeCodes = []Type{TypeAcquire, TypeEnd, TypeOptimistic, TypeHello, TypeHeartbeat, TypeSeal, TypeGap}

// body is such a record, taken apart. key and tail alias it.
type body struct {
	kind Type
	at   time.Time
	key  []byte
	tail []byte
}

var errBody = errors.New("audit: not a record of this version")

func (e *Event) appendBody(b []byte) []byte {
	key := e.Key.String()
	b = append(b, bodyVersion, byte(slices.Index(typeCodes, e.Type)+1))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Time().UnixMicro()))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	return e.appendTail(append(b, key...))
}

func parseBody(b []byte) (body, error) {
	if len(b) < bodyHead || b[0] != bodyVersion || b[1] == 0 || int(b[1]) > len(typeCodes) {
		return body{}, errBody
	}
	n := bodyHead + int(binary.LittleEndian.Uint16(b[10:]))
	if len(b) < n {
		return body{}, errBody
	}
	return body{
		kind: typeCodes[b[1]-1],
		at:   time.UnixMicro(int64(binary.LittleEndian.Uint64(b[2:]))),
		key:  b[bodyHead:n],
		tail: b[n:],
	}, nil
}

// appendJSON makes the whole event of it.
func (y *body) appendJSON(b []byte, producer string, epoch, seq, prev uint64) []byte {
	b = appendHead(b, y.kind, producer, epoch, seq, prev)
	return append(append(b, y.tail...), '}')
}
