package spool

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strconv"
)

// headSize is the fixed size of a segment's header, so that a damaged one still tells
// where the frames begin.
const headSize = 512

const magic = "TLSPOOL1"

// maxLabel is the longest label that fits the header, in bytes.
const maxLabel = 255

// segment is one file. number, epoch and first stand in its name too, so that a damaged
// header loses nothing but the label.
type segment struct {
	number     uint64 // in order of creation
	epoch      uint64
	first      uint64 // seq of its first record, if it gets one
	epochFirst uint64 // seq of the first record of its epoch
	label      string
	size       int64 // header and whole batches
	damaged    bool  // a reader met a bad place
}

func (g *segment) name() string {
	return fmt.Sprintf("%010d-%010d-%020d.seg", g.number, g.epoch, g.first)
}

func (g *segment) path(dir string) string { return filepath.Join(dir, g.name()) }

// parseName reads a segment's name; ok is false for every other file.
func parseName(name string) (g segment, ok bool) {
	const number, epoch, first = 10, 10, 20
	if len(name) != number+1+epoch+1+first+len(".seg") {
		return segment{}, false
	}
	for _, part := range []struct {
		into *uint64
		text string
	}{
		{&g.number, name[:number]},
		{&g.epoch, name[number+1 : number+1+epoch]},
		{&g.first, name[number+epoch+2 : number+epoch+2+first]},
	} {
		v, err := strconv.ParseUint(part.text, 10, 64)
		if err != nil {
			return segment{}, false
		}
		*part.into = v
	}
	return g, g.name() == name
}

// header is: magic, number, epoch, first, first of the epoch (8 bytes each), length of the
// label (1) and the label; zeroes; CRC32C (4) over all of that.
func (g *segment) header() []byte {
	b := append(make([]byte, 0, headSize), magic...)
	for _, v := range []uint64{g.number, g.epoch, g.first, g.epochFirst} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(append(b, byte(len(g.label))), g.label...)
	b = b[:headSize-4]
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHeader fills in what the name does not tell; a damaged header leaves it empty.
func (g *segment) readHeader(b []byte) {
	g.epochFirst = g.first
	if len(b) < headSize || string(b[:8]) != magic ||
		binary.LittleEndian.Uint32(b[headSize-4:]) != crc32.Checksum(b[:headSize-4], castagnoli) {
		g.damaged = len(b) >= headSize
		return
	}
	g.epochFirst = binary.LittleEndian.Uint64(b[32:])
	g.label = string(b[41 : 41+int(b[40])])
}

// listSegments finds the segments in dir, in order of creation.
func listSegments(fs FS, dir string) ([]*segment, error) {
	names, err := fs.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list folder: %w", err)
	}
	var list []*segment
	for _, name := range names {
		if g, ok := parseName(name); ok {
			list = append(list, &g)
		}
	}
	slices.SortFunc(list, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	return list, nil
}

// createSegment makes the file of g with its header, durable in name and content.
func createSegment(fs FS, dir string, g *segment) (File, error) {
	f, err := fs.Create(g.path(dir))
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := writeSynced(f, g.header(), 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("write segment header: %w", err)
	}
	if err := fs.SyncDir(dir); err != nil {
		f.Close()
		return nil, fmt.Errorf("sync folder: %w", err)
	}
	g.size = headSize
	return f, nil
}

func writeSynced(f File, b []byte, at int64) error {
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	return f.Sync()
}
