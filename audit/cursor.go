package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/tierlock/tierlock/audit/spool"
)

// cursor is how far the forwarder has come. With it, what is sent again after a crash
// carries the same ids, seqs and prevs as before.
type cursor struct {
	Producer string   `json:"producer"` // whose prevs these are
	Next     uint64   `json:"next"`     // first seq that may not be safe in the sink
	Prev     []uint64 `json:"prev"`     // by partition: the last seq sent there; zero: none

	Keys int `json:"keys,omitempty"` // over how many partitions keys were spread; zero: as many as Prev
}

const cursorName = "cursor"

func (c cursor) clone() cursor {
	c.Prev = slices.Clone(c.Prev)
	return c
}

// fit gives the cursor n partitions. A partition that is new has no previous event.
func (c *cursor) fit(n int) {
	if len(c.Prev) < n {
		c.Prev = append(c.Prev, make([]uint64, n-len(c.Prev))...)
	}
	c.Prev = c.Prev[:n]
}

// loadCursor reads the cursor; a folder without one begins at the oldest record. A
// damaged one is an error.
func loadCursor(disk spool.FS, dir string) (cursor, error) {
	f, err := disk.View(filepath.Join(dir, cursorName))
	if errors.Is(err, fs.ErrNotExist) {
		return cursor{}, nil
	}
	if err != nil {
		return cursor{}, fmt.Errorf("open cursor: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return cursor{}, fmt.Errorf("size of cursor: %w", err)
	}
	text := make([]byte, size)
	if n, err := f.ReadAt(text, 0); n < len(text) {
		return cursor{}, fmt.Errorf("read cursor: %w", err)
	}
	line, sum, _ := bytes.Cut(text, []byte("\n"))
	if string(sum) != cursorSum(line) {
		return cursor{}, errors.New("cursor is damaged: its checksum is wrong")
	}
	var c cursor
	if err := json.Unmarshal(line, &c); err != nil {
		return cursor{}, fmt.Errorf("cursor is damaged: %w", err)
	}
	return c, nil
}

// save makes the cursor durable, all or nothing, before it returns.
func (c cursor) save(disk spool.FS, dir string) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, cursorName)
	f, err := disk.Create(name + ".tmp")
	if err != nil {
		return fmt.Errorf("create cursor: %w", err)
	}
	_, err = f.WriteAt(append(append(line, '\n'), cursorSum(line)...), 0)
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	if err != nil {
		return fmt.Errorf("write cursor: %w", err)
	}
	if err := disk.Rename(name+".tmp", name); err != nil {
		return fmt.Errorf("rename cursor: %w", err)
	}
	if err := disk.SyncDir(dir); err != nil {
		return fmt.Errorf("sync cursor's folder: %w", err)
	}
	return nil
}

func cursorSum(line []byte) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)))
}
