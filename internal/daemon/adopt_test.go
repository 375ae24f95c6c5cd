package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/audit"
)

// TestDaemonAdoptsOrphansAndNobodyElse: beside the daemon's own spool lie one that a dead
// producer left, one that a living one has open and one that is done.
func TestDaemonAdoptsOrphansAndNobodyElse(t *testing.T) {
	redis, kafka := inProcess(t)
	base := t.TempDir()
	c := config(t, base, redis, kafka)
	c.Audit.Adopt = base
	dead, alive := filepath.Join(base, "dead"), filepath.Join(base, "alive")
	recorded(t, dead, "shop-2", 5)
	living, err := audit.Open(audit.Config{Dir: alive, Producer: "shop-3", Heartbeat: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close(t.Context())

	d := run(t, c)
	// As the daemon's own loop, which looks every 30 s, but now.
	sink, err := c.openSink(d.System.log)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	conf := audit.Config{Dir: c.Audit.Dir, Producer: "shop-1", Sink: sink, Logger: d.System.log}
	a := adopter{conf: conf, in: base, own: c.Audit.Dir, log: d.System.log, seen: map[string]bool{}}
	a.round(t.Context())
	if f, err := audit.Inspect(nil, dead); err != nil || f.Settled() || !a.seen[dead] {
		t.Errorf("adopted at first sight: %+v, %v", f, err)
	}
	until(t, "the orphan is adopted", func() bool {
		a.round(t.Context())
		f, err := audit.Inspect(nil, dead)
		return err == nil && f.Settled()
	})
	for dir, producer := range map[string]string{alive: "shop-3", c.Audit.Dir: "shop-1"} {
		if f, err := audit.Inspect(nil, dir); err != nil || !f.InUse || f.Producer != producer {
			t.Errorf("%s: %+v, %v", dir, f, err)
		}
	}
	if log := d.log.String(); strings.Count(log, "was adopted and forwarded") != 1 || !strings.Contains(log, "producer=shop-2") {
		t.Errorf("log: %s", log)
	}
}

func TestAdopterEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := adopter{in: filepath.Join(t.TempDir(), "none"), log: slog.New(slog.DiscardHandler), seen: map[string]bool{}}
	gone := make(chan struct{})
	go func() { defer close(gone); a.run(ctx, time.Millisecond) }()
	cancel()
	<-gone
}
