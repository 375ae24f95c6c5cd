package spool

import (
	"errors"
	"fmt"
	"time"
)

// Config of a [Spool]. Zero means the stated default.
type Config struct {
	Dir     string        // one process at a time; required; made when missing
	FS      FS            // default [OS]
	Segment int64         // bytes of one file, at most Quota/4; default 64 MiB or Quota/8 where that is less
	Quota   int64         // bytes of all segments together, default 2 GiB
	Reserve int64         // the part of Quota that only [Closing] records may use, kept on the disk beforehand too; default 4 MiB or Quota/16 where that is less
	Linger  time.Duration // a batch that somebody waits for waits this long for company; 0 (default) to 10 ms
	Lazy    time.Duration // a batch that nobody waits for is written after this, default 5 ms
	Batch   int           // bytes of one batch, default 1 MiB
	Label   string        // told by [Record] for every record of this Open; at most 255 bytes
	Epoch   uint64        // of a fresh folder, default 1; later epochs are one higher each
	Floor   uint64        // seqs up to here are used up, whatever the folder says

	// Synced is told of every group commit, Dropped of records that were added without
	// waiting and could not be written. Both run on the flusher with no lock held.
	Synced  func(Sync)
	Dropped func(records int)
}

// Sync is one group commit.
type Sync struct {
	Records int
	Bytes   int
	Took    time.Duration // write and fsync
	Err     error
}

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var faults []error
	refuse := func(field string, value any, rule string) {
		faults = append(faults, fmt.Errorf("spool: invalid %s \"%v\": %s", field, value, rule))
	}
	if c.Dir == "" {
		refuse("dir", "", "is required")
	}
	if c.Quota < 0 || (c.Quota > 0 && c.Quota < minQuota) {
		refuse("quota", c.Quota, fmt.Sprintf("want at least %d bytes", minQuota))
	}
	if c.Segment < 0 || (c.Segment > 0 && c.Segment < minSegment) {
		refuse("segment", c.Segment, fmt.Sprintf("want at least %d bytes", minSegment))
	}
	if most := c.withDefaults().Quota / 4; c.Segment > most && c.Quota >= 0 {
		// The file that is being written cannot be removed: one that may grow to the whole
		// quota would fill it for good, however much of it has been forwarded.
		refuse("segment", c.Segment, fmt.Sprintf("want at most %d bytes, a quarter of the quota", most))
	}
	if c.Reserve < 0 || c.Reserve > c.withDefaults().Quota/2 {
		refuse("reserve", c.Reserve, "want 0 to half the quota")
	}
	if c.Linger < 0 || c.Linger > 10*time.Millisecond {
		refuse("linger", c.Linger, "want 0 to 10 ms")
	}
	if c.Lazy < 0 || c.Lazy > time.Second {
		refuse("lazy", c.Lazy, "want 0 to 1 s")
	}
	if c.Batch < 0 || c.Batch > 64<<20 {
		refuse("batch", c.Batch, "want 0 to 64 MiB")
	}
	if len(c.Label) > maxLabel {
		refuse("label", c.Label, fmt.Sprintf("want at most %d bytes", maxLabel))
	}
	return errors.Join(faults...)
}

const (
	minSegment = 1 << 10
	minQuota   = 16 << 10
)

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = OS{}
	}
	if c.Quota == 0 {
		c.Quota = 2 << 30
	}
	if c.Segment == 0 {
		c.Segment = min(64<<20, max(c.Quota/8, minSegment))
	}
	if c.Reserve == 0 {
		c.Reserve = min(4<<20, c.Quota/16)
	}
	if c.Lazy == 0 {
		c.Lazy = 5 * time.Millisecond
	}
	if c.Batch == 0 {
		c.Batch = 1 << 20
	}
	if c.Epoch == 0 {
		c.Epoch = 1
	}
	return c
}
