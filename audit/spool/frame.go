package spool

import (
	"encoding/binary"
	"hash/crc32"
)

// A frame is: length of the payload (4 bytes, little endian), kind (1), seq (8), CRC32C
// (4) over these 13 bytes and the payload, then the payload.
const (
	frameHead  = 4 + 1 + 8 + 4
	frameCRC   = 4 + 1 + 8 // where the CRC lies
	commitBody = 4 + 4 + 4
	commitSize = frameHead + commitBody

	// MaxRecord is the longest record in bytes: what a Kafka broker takes by default.
	MaxRecord = 1 << 20
)

// kind of a frame. Zero is none, so that a run of zeroes is never a frame.
type kind byte

const (
	kindRecord kind = 1 // payload: the record
	kindCommit kind = 2 // ends a batch; seq: of its last record; payload: bytes, records and CRC32C of all its frames
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is one frame as it lies in a buffer.
type frame struct {
	kind kind
	seq  uint64
	body []byte // aliases the buffer
}

func (f frame) size() int { return frameHead + len(f.body) }

// appendFrame appends a frame whose seq and CRC are filled in by stamp.
func appendFrame(b []byte, k kind, body []byte) []byte {
	b = withRoom(b, frameHead+len(body))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, byte(k))
	b = append(b, make([]byte, 12)...)
	return append(b, body...)
}

// withRoom is b with room for n bytes more. Left to append, a batch that grows to a megabyte
// is copied five times over; doubled, once.
func withRoom(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b
	}
	return append(make([]byte, 0, max(2*cap(b), len(b)+n, 16<<10)), b...)
}

// stamp fills in seq and CRC of the frame at the start of b and returns its size.
func stamp(b []byte, seq uint64) int {
	n := frameHead + int(binary.LittleEndian.Uint32(b))
	binary.LittleEndian.PutUint64(b[5:], seq)
	binary.LittleEndian.PutUint32(b[frameCRC:], sum(b[:n]))
	return n
}

// sum is the CRC of a whole frame, leaving out the CRC itself.
func sum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:frameCRC], castagnoli), castagnoli, b[frameHead:])
}

// cut reads the frame at the start of b. need is how many bytes it wants when b holds too
// few to tell; ok is false when what stands there is no frame.
func cut(b []byte) (f frame, need int, ok bool) {
	if len(b) < frameHead {
		return frame{}, frameHead, false
	}
	n := int(binary.LittleEndian.Uint32(b))
	f.kind = kind(b[4])
	if n > MaxRecord || (f.kind != kindRecord && f.kind != kindCommit) || (f.kind == kindCommit && n != commitBody) {
		return frame{}, 0, false
	}
	if len(b) < frameHead+n {
		return frame{}, frameHead + n, false
	}
	b = b[:frameHead+n]
	if binary.LittleEndian.Uint32(b[frameCRC:]) != sum(b) {
		return frame{}, 0, false
	}
	f.seq = binary.LittleEndian.Uint64(b[5:])
	f.body = b[frameHead:]
	return f, 0, true
}

// appendCommit ends the batch that b is.
func appendCommit(b []byte, count int, last uint64) []byte {
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	body = binary.LittleEndian.AppendUint32(body, uint32(count))
	body = binary.LittleEndian.AppendUint32(body, crc32.Checksum(b, castagnoli))
	n := len(b)
	b = appendFrame(b, kindCommit, body)
	stamp(b[n:], last)
	return b
}

// whole tells whether the commit frame f, which begins at data[at], ends a batch of which
// every byte is as it was written.
func (f frame) whole(data []byte, at int) bool {
	n := int(binary.LittleEndian.Uint32(f.body))
	return n <= at && crc32.Checksum(data[at-n:at], castagnoli) == binary.LittleEndian.Uint32(f.body[8:])
}

// lastCommit scans a segment's frames for the last whole batch up to the seq most: its
// last seq and where it ends, or zeroes. A whole batch behind a bad place proves that the
// place had once been synced, since no batch is written before the one in front of it is
// safe: so that is damage, and only what lies behind the last whole batch is a torn tail.
func lastCommit(data []byte, most uint64) (seq uint64, end int) {
	for at := 0; at < len(data); {
		f, _, ok := cut(data[at:])
		if !ok {
			at++
			continue
		}
		if f.kind == kindCommit && f.seq <= most && f.whole(data, at) {
			seq, end = f.seq, at+f.size()
		}
		at += f.size()
	}
	return seq, end
}
