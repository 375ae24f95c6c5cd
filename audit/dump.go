package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tierlock/tierlock/audit/spool"
)

// Dump gives line each event of the folder from seq from up to seq to (zero: the last), as
// JSON and in order. Its prev is 0: that is known only when it is sent. In place of what
// cannot be read back stands {"lost":{"from":…,"to":…}}. line's slice is good until it
// returns; its error ends Dump. Nothing in the folder is changed.
func Dump(ctx context.Context, disk spool.FS, dir string, from, to uint64, line func([]byte) error) error {
	f, err := spool.Look(disk, dir)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	r := f.Reader(from)
	defer r.Close()
	var b []byte
	for {
		rec, err := r.Next(ctx)
		if begins := cmp.Or(rec.Lost, rec.Seq); errors.Is(err, ErrClosed) || to != 0 && begins > to {
			return nil
		}
		if err != nil {
			return err
		}
		y, err := parseBody(rec.Data)
		switch {
		case rec.Lost != 0:
			b = fmt.Appendf(b[:0], `{"lost":{"from":%d,"to":%d}}`, rec.Lost, rec.Seq)
		case err != nil: // of a later version, or not an event
			b = fmt.Appendf(b[:0], `{"lost":{"from":%d,"to":%d}}`, rec.Seq, rec.Seq)
		default:
			b = y.appendJSON(b[:0], rec.Label, rec.Epoch, rec.Seq, 0)
		}
		if err := line(b); err != nil {
			return err
		}
	}
}
