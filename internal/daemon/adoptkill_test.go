package daemon

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// writerEnv makes the test binary a producer: it records grants in that folder, forwards
// nothing, prints each that was acknowledged, and goes on until it is killed.
const writerEnv = "TIERLOCK_DAEMON_WRITER"

func writerMain() bool {
	dir := os.Getenv(writerEnv)
	if dir == "" {
		return false
	}
	err := func() error {
		l, err := audit.Open(audit.Config{Dir: dir, Producer: "shop-2", Heartbeat: 20 * time.Millisecond})
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			key, err := tierlock.ParseKey(fmt.Sprintf("biz:coupon:lock:u%d", i))
			if err != nil {
				return err
			}
			id := tierlock.NewRequestID()
			ev := audit.Acquired(tierlock.Grant{Chain: "coupon", Key: key, RequestID: id, Tier: tierlock.Local, Store: "local", AcquiredAt: time.Now()}, time.Minute, 0)
			if err := l.Record(context.Background(), &ev); err != nil {
				return err
			}
			fmt.Fprintln(os.Stdout, id.Fingerprint())
		}
	}()
	fmt.Fprintln(os.Stdout, "error", err)
	return true
}

// A process is killed by SIGKILL in the middle of its grants and never comes back. The daemon
// takes its folder over: each grant that was acknowledged is in Kafka once by its id, under the
// dead process's name, and its epoch is sealed.
func TestDaemonAdoptsWhatAKilledProcessLeft(t *testing.T) {
	redis, kafka := inProcess(t)
	base := t.TempDir()
	c := config(t, base, redis, kafka)
	c.Audit.Adopt = base
	dead := filepath.Join(base, "dead")
	acked := killedWriter(t, dead, 40)

	d := run(t, c)
	sink, err := c.openSink(d.System.log)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	a := adopter{
		conf: audit.Config{Dir: c.Audit.Dir, Producer: "shop-1", Sink: sink, Logger: d.System.log}, in: base, own: c.Audit.Dir, log: d.System.log, seen: map[string]bool{},
	}
	until(t, "the orphan is adopted", func() bool {
		a.round(t.Context())
		f, err := audit.Inspect(nil, dead)
		return err == nil && f.Settled()
	})

	source, err := kafkasource.New(kafkasource.Config{Brokers: c.Audit.Kafka.Brokers, Group: "after", MaxWait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close(context.WithoutCancel(t.Context()))
	ids, sealed, caught := map[string]string{}, false, map[int]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for width := 1; len(caught) < width; {
		b, err := source.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		width = max(width, b.Width, len(b.Assigned))
		for i := range b.Records {
			ev, err := audit.Parse(b.Records[i].Value)
			switch {
			case err != nil:
				t.Fatal(err)
			case ev.Type == audit.TypeSeal && ev.Producer == "shop-2":
				sealed = sealed || !ev.Clean
			case ev.Type == audit.TypeAcquire:
				if was, twice := ids[ev.Holder]; twice && was != ev.EventID() || ev.Producer != "shop-2" {
					t.Errorf("%s is %s and %s of %s", ev.Holder, was, ev.EventID(), ev.Producer)
				}
				ids[ev.Holder] = ev.EventID()
			}
		}
		for _, p := range b.CaughtUp {
			caught[p] = true
		}
	}
	for _, holder := range acked {
		if ids[holder] == "" {
			t.Errorf("%s was acknowledged and is not in Kafka", holder)
		}
	}
	if !sealed || len(acked) < 40 {
		t.Errorf("sealed by another %v, %d acknowledged", sealed, len(acked))
	}
}

// killedWriter starts a writer, kills it after so many grants, and returns all that it had told.
func killedWriter(t *testing.T, dir string, after int) (acked []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), writerEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was cut was not told
			break
		}
		if strings.HasPrefix(line, "error") {
			t.Fatal(line)
		}
		if acked = append(acked, strings.TrimSpace(line)); len(acked) == after {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait() // killed
	return acked
}
