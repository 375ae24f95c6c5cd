package audit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit/spool"
)

// Config of a [Log]. Zero means the stated default.
type Config struct {
	Dir        string        // of the spool; one process at a time; required
	Producer   string        // instance name, 1 to 128 of a-z A-Z 0-9 _ : . -, in every event; default the host's name
	Sink       Sink          // nil: events stay in Dir until a later process forwards them
	Linger     time.Duration // a group commit waits this long for company; 0 (default) to 1 ms
	Heartbeat  time.Duration // default 5 s, at least 10 ms
	ClockError time.Duration // bound of this host's clock, written where an event brings none; default: none is known, and readers call nothing of it certain
	Segment    int64         // bytes of one spool file, at most Quota/4; default 64 MiB or Quota/8 where that is less
	Quota      int64         // bytes on the disk, default 2 GiB
	Notes      int           // events that may wait in memory for the disk, default 16384
	Digest     Digest        // hides the keys of some chains; default none
	FS         spool.FS      // default the operating system's
	Logger     *slog.Logger  // nil: discard
	Hooks      Hooks
}

// Validate reports every fault at once.
func (c *Config) Validate() error {
	var faults []error
	refuse := func(field string, value any, rule string) {
		faults = append(faults, tierlock.Invalid("audit."+field, fmt.Sprint(value), rule))
	}
	if c.Dir == "" {
		refuse("dir", "", "is required")
	}
	if c.Producer != "" && !producerName(c.Producer) {
		refuse("producer", c.Producer, "want 1 to 128 of a-z A-Z 0-9 _ : . -")
	}
	if c.Linger < 0 || c.Linger > time.Millisecond {
		refuse("linger", c.Linger, "want 0 to 1ms")
	}
	if c.Heartbeat < 0 || (c.Heartbeat > 0 && c.Heartbeat < 10*time.Millisecond) {
		refuse("heartbeat", c.Heartbeat, "want at least 10ms")
	}
	if c.Quota < 0 || (c.Quota > 0 && c.Quota < 64<<10) {
		refuse("quota", c.Quota, "want at least 65536 bytes")
	}
	if c.Segment < 0 || (c.Segment > 0 && c.Segment < 4<<10) {
		refuse("segment", c.Segment, "want at least 4096 bytes")
	}
	if most := cmp.Or(c.Quota, defaultQuota) / 4; c.Quota >= 0 && c.Segment > most {
		refuse("segment", c.Segment, fmt.Sprintf("want at most %d bytes, a quarter of the quota", most))
	}
	if c.Notes < 0 {
		refuse("notes", c.Notes, "want at least 0")
	}
	c.Digest.check(refuse)
	return errors.Join(faults...)
}

func producerName(s string) bool {
	_, err := tierlock.ParseKey(s) // the same bytes, and no '/', which parts an event's id
	return err == nil && len(s) <= 128
}

const defaultQuota = 2 << 30

// withDefaults asks the system for the host's name.
func (c Config) withDefaults() (Config, error) {
	if c.Producer == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("audit: name of the host, for producer: %w", err)
		}
		c.Producer = strings.ToLower(host)
		if !producerName(c.Producer) {
			return c, tierlock.Invalid("audit.producer", c.Producer, "the host's name does not fit: set one")
		}
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 5 * time.Second
	}
	c.ClockError = max(c.ClockError, 0)
	if c.Quota == 0 {
		c.Quota = defaultQuota
	}
	if c.Notes == 0 {
		c.Notes = 16384
	}
	if c.FS == nil {
		c.FS = spool.OS{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
