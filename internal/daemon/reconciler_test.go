package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

// overlap makes two daemons of one service grant the same coupon at once, under an order
// to bypass, and stops them: their events are in Kafka then.
func overlap(t *testing.T, dir, redis, kafka string) {
	t.Helper()
	var daemons []running
	for _, instance := range []string{"1", "2"} {
		c := config(t, filepath.Join(dir, instance), redis, kafka)
		c.Instance, c.Switch.File = instance, filepath.Join(dir, "switch.yaml")
		daemons = append(daemons, run(t, c))
	}
	writeOrder(t, filepath.Join(dir, "switch.yaml"), 1, "bypass")
	for i, d := range daemons {
		until(t, "the order is in force", func() bool { return d.gw.AppliedVersion() == 1 })
		d.want("/v1/try", couponLock(i), `200 {"outcome":"success","tier":"bypass"`)
	}
	for i, d := range daemons {
		d.want("/v1/unlock", couponLock(i), `200 {"outcome":"success"}`)
		if err := d.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func couponLock(i int) string {
	return fmt.Sprintf(`{"key":"biz:coupon:lock:u42-c7","request_id":"%032x"}`, i+1)
}

// reconciled runs the job to the end of the stream and returns its report and its log.
func reconciled(t *testing.T, c Config, apply bool) (reconcile.Report, *buffer) {
	t.Helper()
	log := new(buffer)
	r, err := OpenReconciler(c, "v0", slog.New(slog.NewTextHandler(log, nil)), apply, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := r.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatalf("run: %v, %v\n%s", err, ctx.Err(), log)
	}
	return r.job.Report(), log
}

// wantOneOverlap makes a dry run over what overlap has left behind.
func wantOneOverlap(t *testing.T, c Config) {
	t.Helper()
	r, _ := reconciled(t, c, false)
	if r.Findings != 1 || r.Certain+r.Possible != 1 || !r.DryRun || r.Holds != 2 {
		text, _ := json.Marshal(r)
		t.Errorf("report %s", text)
	}
}

func TestTheJobFindsWhatTwoDaemonsLetThrough(t *testing.T) {
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	overlap(t, dir, redis, kafka)
	wantOneOverlap(t, config(t, dir, redis, kafka))
}

func TestTheJobOnRealServers(t *testing.T) {
	servers.Need(t, "Redis, Kafka and PostgreSQL")
	redis, kafka, dir := servers.Redis(t).Addr(), servers.Kafka(t).Addr(), t.TempDir()
	t.Setenv("TIERLOCK_TEST_DSN", servers.Postgres(t).DSN())
	overlap(t, dir, redis, kafka)
	c := config(t, dir, redis, kafka)
	c.Reconcile.Database = &DatabaseConfig{Driver: "postgres", DSNEnv: "TIERLOCK_TEST_DSN"}
	wantOneOverlap(t, c)

	var out bytes.Buffer
	p := Process{Stdout: &out, Stderr: &out}
	if code := p.listFindings(t.Context(), c, "text"); code != ExitOK || !strings.Contains(out.String(), "biz:coupon:lock:u42-c7") || !strings.Contains(out.String(), "1 finding\n") {
		t.Errorf("code %d\n%s", code, &out)
	}
}

// TestTheJobWaitsForItsServers: Kafka comes up after the job has begun.
func TestTheJobWaitsForItsServers(t *testing.T) {
	redis, _ := inProcess(t)
	log := new(buffer)
	r, err := OpenReconciler(config(t, t.TempDir(), redis, nobody(t)), "v0", slog.New(slog.NewTextHandler(log, nil)), false, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	until(t, "the log says that Kafka is away", func() bool {
		return strings.Contains(log.String(), "not reachable, trying again") && strings.Contains(log.String(), "server=kafka")
	})
	if conn, err := net.Dial("tcp", r.AdminAddr()); err != nil {
		t.Errorf("admin pages: %v", err)
	} else {
		_ = conn.Close()
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
