package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/spool"
)

// mount is the file system that a folder lies on.
type mount struct {
	kind    string // "ext4"
	place   string // where it is mounted
	root    string // which folder of it
	options []string
}

// doctorSpool looks at the folder that must not lose what it took.
func (c *Config) doctorSpool(ctx context.Context, e *examiner) {
	there, err := nearest(c.Audit.Dir)
	if err != nil {
		e.fail("folder", "make it, for the user that the daemon runs as", "%v", err)
		return
	}
	if m, err := mountOf(there); err != nil {
		e.warn("disk", "see that it is a disk that outlives a restart", "what kind of file system it is cannot be told: %v", err)
	} else {
		m.judge(e)
	}
	c.judgeSpace(e, there)
	if there != filepath.Clean(c.Audit.Dir) {
		e.ok("folder", "%s is not there yet; the daemon makes it", c.Audit.Dir)
		return
	}
	judgeSync(ctx, e, c.Audit.Dir)
	c.judgeFolder(e)
}

// nearest is dir, or the nearest folder above it that is there.
func nearest(dir string) (string, error) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			return dir, nil
		case err == nil:
			return "", fmt.Errorf("%s is no folder", dir)
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return "", err
		}
	}
}

// judge says what a spool on m is worth.
func (m mount) judge(e *examiner) {
	const elsewhere = "put audit.dir on a disk of its own: a local one, or a volume that outlives the container"
	switch {
	case m.kind == "tmpfs" || m.kind == "ramfs":
		e.fail("disk", elsewhere, "%s at %s is memory: whatever Kafka has not got is lost with a restart", m.kind, m.place)
	case strings.Contains(m.root, "kubernetes.io~empty-dir"):
		e.warn("disk", elsewhere, "an emptyDir (%s at %s) goes with its pod, and with it whatever Kafka has not got", m.kind, m.place)
	case m.kind == "overlay" || m.kind == "aufs":
		e.warn("disk", elsewhere, "%s at %s is the container's own layer: it goes with the container, and with it whatever Kafka has not got", m.kind, m.place)
	case m.kind == "nfs" || m.kind == "nfs4" || m.kind == "cifs" || m.kind == "smb3" || strings.HasPrefix(m.kind, "fuse"):
		found := fmt.Sprintf("%s at %s: a sync is worth what its server makes of it", m.kind, m.place)
		if slices.Contains(m.options, "soft") || slices.Contains(m.options, "softerr") {
			found += ", and it is mounted soft, so that writes may fail while the server is away"
		}
		e.warn("disk", elsewhere+"; else mount it hard, and export it with sync", "%s", found)
	default:
		e.ok("disk", "%s at %s", m.kind, m.place)
	}
}

func (c *Config) judgeSpace(e *examiner, dir string) {
	free, known := freeBytes(dir)
	if !known {
		return
	}
	quota := or(c.Audit.Quota, 2<<30)
	switch {
	case free < 64<<20:
		e.fail("space", "make room", "%d MiB are free", free>>20)
	case free < quota:
		e.warn("space", "make room, or lower audit.quota_bytes: a full disk is noticed later than a full quota", "%d MiB are free, audit.quota_bytes is %d MiB", free>>20, quota>>20)
	default:
		e.ok("space", "%d MiB are free, the quota is %d MiB", free>>20, quota>>20)
	}
}

const (
	syncs    = 9
	slowSync = 20 * time.Millisecond
)

// judgeSync writes and syncs one small file, some times, and takes it away.
func judgeSync(ctx context.Context, e *examiner, dir string) {
	const remedy = "give the user that the daemon runs as the right to write there, and look at the kernel's log for the disk"
	took, err := trySync(ctx, dir)
	switch {
	case err != nil:
		e.fail("sync", remedy, "a file cannot be written and synced there: %v", err)
	case took > slowSync:
		e.warn("sync", "a grant that must be on the disk first waits for so long: use a quicker one", "one takes %v", took.Round(time.Microsecond))
	default:
		e.ok("sync", "one takes %v", took.Round(time.Microsecond))
	}
}

// trySync returns the middle of a few.
func trySync(ctx context.Context, dir string) (_ time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var took []time.Duration
	for range syncs {
		began := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		if ctx.Err() != nil {
			break // it is slow; what is known will do
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// judgeFolder tells what lies in the spool.
func (c *Config) judgeFolder(e *examiner) {
	f, err := audit.Inspect(nil, c.Audit.Dir)
	switch {
	case errors.Is(err, spool.ErrNoSpool):
		e.ok("folder", "nothing was recorded there yet")
	case err != nil:
		e.fail("folder", "tierlock spool fsck "+c.Audit.Dir, "%v", err)
	case f.Cursor != nil:
		e.warn("folder", "tierlock spool fsck --repair "+c.Audit.Dir+" while no daemon runs", "its cursor cannot be read, so all of it is sent again: %v", f.Cursor)
	case f.Producer != "" && f.Producer != c.producer():
		e.warn("folder", "give each instance a folder of its own", "the last events in it are of %s, and this configuration tells events as %s", f.Producer, c.producer())
	case len(f.Missing) > 0:
		e.warn("folder", "tierlock spool fsck "+c.Audit.Dir, "seq %d to %d are in no segment and not in Kafka", f.Missing[0].From, f.Missing[0].To)
	case f.InUse:
		e.ok("folder", "a daemon has it open; %d events are not in Kafka yet", f.Backlog())
	default:
		e.ok("folder", "%d events are not in Kafka yet", f.Backlog())
	}
}
