package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/internal/demo/memredis"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
)

const (
	idA  = "6f3b0c9de25a4718b0a1c2d3e4f50617"
	idB  = "00112233445566778899aabbccddeeff"
	keyA = `{"key":"biz:order:lock:10086","request_id":"` + idA + `"}`
	keyB = `{"key":"biz:order:lock:10086","request_id":"` + idB + `"}`
)

// config is a file for a daemon on these servers; kafka may be empty. An attempt may take
// 2 s, so that a busy machine is not taken for a slow store.
func config(t *testing.T, dir, redis, kafka string) Config {
	t.Helper()
	forward := ""
	if kafka != "" {
		forward = fmt.Sprintf(", kafka: {brokers: [%q], partitions: 3}", kafka)
	}
	c, err := Parse(fmt.Appendf(nil, `
service: shop
instance: "1"
stores: {main: {kind: redis, addrs: [%q], timeout: 2s}}
switch: {file: %q, last_good: %q}
audit: {dir: %q%s}
listen: {data: "127.0.0.1:0", admin: "127.0.0.1:0", grace: 5s}
reconcile: {listen: "127.0.0.1:0", lateness: 10ms}
chains:
  order: {class: strong, protects: "one sale of a sku at a time", on_lost: fence, attempt: 2s}
  coupon: {class: weak, protects: "one claim of a coupon per user at a time", on_lost: reconcile, local: {permits: 1}, attempt: 2s}
`, redis, filepath.Join(dir, "switch.yaml"), filepath.Join(dir, "switch.last"), filepath.Join(dir, "spool"), forward))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// running is a daemon under test.
type running struct {
	t *testing.T
	*System
	log  *buffer
	stop func() error // as SIGTERM does; waits for the end
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func run(t *testing.T, c Config) running {
	t.Helper()
	log := new(buffer)
	s, err := Open(c, "v0", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("run: %v\n%s", err, log)
		}
	})
	return running{t, s, log, stop}
}

// client keeps no connection, so that nothing is left when a test ends.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

// post returns status and body.
func (r running) post(path, body string) string { return r.postTo(r.DataAddr(), path, body) }

// postAdmin is post on the admin listener.
func (r running) postAdmin(path, body string) string { return r.postTo(r.AdminAddr(), path, body) }

func (r running) postTo(addr, path, body string) string {
	r.t.Helper()
	resp, err := client.Post("http://"+addr+path, "", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return line(r.t, resp)
}

func (r running) get(path string) string {
	r.t.Helper()
	resp, err := client.Get("http://" + r.AdminAddr() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	return line(r.t, resp)
}

func line(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, bytes.TrimSpace(text))
}

func (r running) want(path, body, begins string) {
	r.t.Helper()
	if got := r.post(path, body); !strings.HasPrefix(got, begins) {
		r.t.Errorf("%s: %s, want %s…\n%s", path, got, begins, r.log)
	}
}

// until waits for a condition with a deadline.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 15 s: %s", what)
		}
		tick := time.NewTimer(10 * time.Millisecond)
		<-tick.C
	}
}

func inProcess(t *testing.T) (redis, kafka string) {
	t.Helper()
	r, err := memredis.Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	k, err := memkafka.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return r.Addr(), k.Addrs()[0]
}

// lifeOfADaemon is the story of requirement 4: take, conflict, restart, release by id,
// with every event of it in Kafka at the end.
func lifeOfADaemon(t *testing.T, redis, kafka string) {
	dir := t.TempDir()
	first := run(t, config(t, dir, redis, kafka))
	first.want("/v1/try", keyA, `200 {"outcome":"success","tier":"shared","key":"biz:order:lock:10086","request_id":"`+idA+`","exclusive":true,"token":`)
	first.want("/v1/try", keyB, `409 {"outcome":"failure","reason":"held","remaining_ms":`)
	first.want("/v1/held", keyA, `200 {"held":true,`)
	if got := first.get("/readyz"); got != `200 {"ready":true}` {
		t.Errorf("readyz: %s", got)
	}
	if got := first.get("/healthz"); !strings.HasPrefix(got, `200 {"status":"ok","version":"v0"`) {
		t.Errorf("healthz: %s", got)
	}
	if got := first.get("/metrics"); !strings.Contains(got, `tierlock_acquires_total{chain="order",outcome="success",reason="none",tier="shared"} 1`) {
		t.Errorf("metrics: %s", got)
	}
	if err := first.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}

	second := run(t, config(t, dir, redis, kafka))
	second.want("/v1/try", keyB, `409 {"outcome":"failure","reason":"held"`)
	second.want("/v1/renew", strings.Replace(keyA, "}", `,"ttl_ms":20000}`, 1), `200 {"outcome":"success","expires_in_ms":1`)
	second.want("/v1/unlock", keyB, `409 {"outcome":"failure","reason":"lost"}`)
	second.want("/v1/unlock", keyA, `200 {"outcome":"success"}`)
	second.want("/v1/try", keyB, `200 {"outcome":"success"`)
	second.want("/v1/unlock", keyB, `200 {"outcome":"success"}`)
	if err := second.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	wantEvents(t, kafka, map[audit.Type]int{audit.TypeAcquire: 2, audit.TypeEnd: 2, audit.TypeHello: 6, audit.TypeSeal: 6})
	for _, log := range []*buffer{first.log, second.log} {
		if strings.Contains(log.String(), idA) || strings.Contains(log.String(), idB) {
			t.Errorf("a request id stands in the log:\n%s", log)
		}
	}
}

// wantEvents counts the topic's events by type.
func wantEvents(t *testing.T, kafka string, want map[audit.Type]int) {
	t.Helper()
	got := map[audit.Type]int{}
	err := memkafka.ReadAll(t.Context(), []string{kafka}, "tierlock.events.v1", func(_ int, _, value []byte) error {
		ev, err := audit.Parse(value)
		got[ev.Type]++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, n := range want {
		if got[kind] != n {
			t.Errorf("%d events %s, want %d (all: %v)", got[kind], kind, n, got)
		}
	}
}

func TestLifeOfADaemon(t *testing.T) {
	redis, kafka := inProcess(t)
	lifeOfADaemon(t, redis, kafka)
}

func TestLifeOfADaemonOnRealServers(t *testing.T) {
	t.Parallel()
	servers.Need(t, "Redis and Kafka")
	lifeOfADaemon(t, servers.Redis(t).Addr(), servers.SharedKafka(t).Addr())
}

// nobody is an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestItStartsWithoutItsServersAndSaysSo(t *testing.T) {
	t.Parallel()
	d := run(t, config(t, t.TempDir(), nobody(t), nobody(t)))
	until(t, "both servers named in the log", func() bool {
		log := d.log.String()
		return strings.Contains(log, `server="store main"`) && strings.Contains(log, "server=kafka") && strings.Contains(log, "not reachable, trying again")
	})
	d.want("/v1/try", keyA, `503 {"outcome":"system_error","reason":"down","alert":"page"}`)
	d.want("/v1/try", `{"key":"biz:coupon:lock:1"}`, `200 {"outcome":"success","tier":"local","reason":"down"`)
	if got := d.get("/healthz"); !strings.HasPrefix(got, `200 {"status":"degraded"`) || !strings.Contains(got, `"tier":"refused"`) {
		t.Errorf("healthz: %s", got)
	}
	if got := d.get("/readyz"); got != `200 {"ready":true}` {
		t.Errorf("a degraded daemon must stay in service: %s", got)
	}
}

func TestWhatKafkaCouldNotTakeIsSentAfterARestart(t *testing.T) {
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	away := config(t, dir, redis, nobody(t))
	away.Listen.Grace = 100 * time.Millisecond
	first := run(t, away)
	first.want("/v1/try", keyA, `200 {"outcome":"success"`)
	if err := first.stop(); err != nil {
		t.Fatalf("stop without Kafka: %v", err)
	}
	second := run(t, config(t, dir, redis, kafka))
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, kafka, map[audit.Type]int{audit.TypeAcquire: 1})
}

func TestAnOrderReachesTheDaemonByFile(t *testing.T) {
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	d := run(t, config(t, dir, redis, kafka))
	writeOrder(t, filepath.Join(dir, "switch.yaml"), 1, "bypass")
	until(t, "version 1 in force", func() bool { return d.gw.AppliedVersion() == 1 })
	d.want("/v1/try", `{"key":"biz:coupon:lock:1"}`, `200 {"outcome":"success","tier":"bypass","reason":"forced"`)
	if got := d.get("/healthz"); !strings.Contains(got, `"order":{"mode":"bypass"`) {
		t.Errorf("healthz: %s", got)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	after := run(t, config(t, dir, redis, kafka)) // from last good or the file: in force at once
	until(t, "version 1 in force after a restart", func() bool { return after.gw.AppliedVersion() == 1 })
}

func TestASpoolIsOneProcessesOwn(t *testing.T) {
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	run(t, config(t, dir, redis, kafka))
	s, err := Open(config(t, dir, redis, kafka), "v0", slog.New(slog.DiscardHandler))
	if err == nil {
		_ = s.Close()
		t.Fatal("a second daemon opened the same spool")
	}
	if !strings.Contains(err.Error(), "open the spool") {
		t.Errorf("error %v", err)
	}
}

func TestAPortThatIsTakenIsAnError(t *testing.T) {
	redis, _ := inProcess(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := config(t, t.TempDir(), redis, "")
	c.Listen.Admin = ln.Addr().String()
	if s, err := Open(c, "v0", slog.New(slog.DiscardHandler)); err == nil {
		_ = s.Close()
		t.Error("no error")
	}
}

func TestHealthShowsWhereEveryChainStands(t *testing.T) {
	redis, kafka := inProcess(t)
	d := run(t, config(t, t.TempDir(), redis, kafka))
	_, text, _ := strings.Cut(d.get("/healthz"), " ")
	var h struct {
		Details health `json:"details"`
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	if n := len(h.Details.Chains); n != 2 || h.Details.Chains[0].Chain != "coupon" || h.Details.Chains[0].Tier != "shared" || h.Details.Spool == nil || !h.Details.Spool.Writable {
		t.Errorf("%s", text)
	}
}

// writeOrder publishes an order for the coupon chain.
func writeOrder(t *testing.T, path string, version uint64, mode string) {
	t.Helper()
	var m tierlock.Mode
	if err := m.UnmarshalText([]byte(mode)); err != nil {
		t.Fatal(err)
	}
	doc := switchcfg.Document{Version: version, Chains: map[string]switchcfg.Directive{
		"coupon": {Mode: m, Until: time.Now().Add(time.Hour), Reason: "test", By: "test"},
	}}
	if err := switchcfg.WriteFile(path, doc); err != nil {
		t.Fatal(err)
	}
}

// TestItIsNotReadyWhileItStops: the spool waits for a Kafka that is away, and meanwhile
// nobody shall send new work.
func TestItIsNotReadyWhileItStops(t *testing.T) {
	t.Parallel()
	redis, _ := inProcess(t)
	c := config(t, t.TempDir(), redis, nobody(t))
	c.Listen.Grace = 2 * time.Second
	d := run(t, c)
	d.want("/v1/try", keyA, `200 {"outcome":"success"`)
	ended := make(chan error, 1)
	go func() { ended <- d.stop() }()
	until(t, "not ready", func() bool { return d.get("/readyz") == `503 {"ready":false,"reason":"stopping"}` })
	if err := <-ended; err != nil {
		t.Errorf("stop: %v", err)
	}
}
