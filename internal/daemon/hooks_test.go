package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// hooksOf reads hooks as they stand in docs/repairs.md.
func hooksOf(t *testing.T, hooks string) (Config, error) {
	t.Helper()
	return Parse([]byte(`
stores: {main: {kind: redis, addrs: ["127.0.0.1:6379"]}}
audit: {dir: spool, kafka: {brokers: ["127.0.0.1:9092"]}}
chains: {coupon: {class: weak, protects: "one claim", on_lost: reconcile}}
reconcile:
  ` + strings.ReplaceAll(strings.TrimSpace(hooks), "\n", "\n  ")))
}

func TestHooksOfThePageAreGood(t *testing.T) {
	page := blocks(doc(t, "repairs.md"), "yaml")
	if len(page) != 1 {
		t.Fatalf("%d blocks", len(page))
	}
	c, err := hooksOf(t, "database: {driver: postgres, dsn_env: DSN}\n"+page[0])
	if err != nil || len(c.Reconcile.Hooks) != 3 {
		t.Fatalf("%d hooks, %v", len(c.Reconcile.Hooks), err)
	}
	if err := c.Reconcile.ruled(); err != nil {
		t.Error(err)
	}
}

// The hooks of the examples go into a file as they are.
func TestHooksOfTheExamplesAreGood(t *testing.T) {
	paths, err := filepath.Glob("../../examples/repairs/*.yaml")
	if err != nil || len(paths) != 4 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := hooksOf(t, "database: {driver: postgres, dsn_env: DSN}\n"+string(text)); err != nil || len(c.Reconcile.Hooks) != 1 || c.Reconcile.ruled() != nil {
			t.Errorf("%s: %d hooks, %v, %v", path, len(c.Reconcile.Hooks), err, c.Reconcile.ruled())
		}
	}
}

func TestFaultsOfHooksAreToldAtOnce(t *testing.T) {
	for text, fields := range map[string][]string{
		`hooks: {a: {}}`:                                        {"reconcile.hooks.a.check"},
		`hooks: {a: {check: SELECT 1}}`:                         {"reconcile.hooks.a"},
		`hooks: {a: {webhook: {url: "ftp://x", timeout: -1s}}}`: {"reconcile.hooks.a.webhook.url", "reconcile.hooks.a.webhook.timeout", "reconcile.hooks.a.webhook.secret_env"},
		`hooks: {a: {webhook: {url: "http://x/", secret_env: A, secret_file: b}, publish: {}, apply: now, approvers: 3, approve_over: -1, approval_valid: -1s}}`: {
			"reconcile.hooks.a.webhook.secret_env", "reconcile.hooks.a.publish.topic", "reconcile.hooks.a.apply", "reconcile.hooks.a.approvers",
			"reconcile.hooks.a.approve_over", "reconcile.hooks.a.approval_valid",
		},
		`hooks: {a: {webhook: {url: "http://x/", secret_env: A}, apply: approve}}`: {"reconcile.hooks.a.apply"},
		"database: {driver: postgres, dsn_env: D}\nhooks: {a: {check: SELECT 1, repair: [x], publish: {topic: t}, webhook: {url: \"http://x/\", secret_env: A}}}": {
			"reconcile.hooks.a.publish", "reconcile.hooks.a.webhook",
		},
		"database: {driver: postgres, dsn_env: D}\nhooks: {a: {repair: [x], webhook: {url: \"http://x/\", secret_env: A}}}": {"reconcile.hooks.a.repair"},
	} {
		_, err := hooksOf(t, text)
		told := map[string]bool{}
		for _, f := range tierlock.Invalids(err) {
			told[f.Field] = true
		}
		for _, field := range fields {
			if !told[field] {
				t.Errorf("%s: %v does not name %s", text, err, field)
			}
			delete(told, field)
		}
		for field := range told {
			t.Errorf("%s: %s is told too", text, field)
		}
	}
}

// Nothing is repaired of a type on which the file has no word.
func TestApplyNeedsARule(t *testing.T) {
	redis, kafka := inProcess(t)
	c := config(t, t.TempDir(), redis, kafka)
	t.Setenv("HOOK_SECRET", strings.Repeat("k", 32))
	c.Reconcile.Hooks = map[string]HookConfig{
		"coupon": {Webhook: &WebhookConfig{URL: "http://127.0.0.1:1/", SecretEnv: "HOOK_SECRET"}},
		"looked": {Webhook: &WebhookConfig{URL: "http://127.0.0.1:1/", SecretEnv: "HOOK_SECRET", CheckOnly: true}},
	}
	_, err := OpenReconciler(c, "v0", slog.New(slog.DiscardHandler), true, true)
	if faults := tierlock.Invalids(err); len(faults) != 1 || faults[0].Field != "reconcile.hooks.coupon.apply" {
		t.Errorf("%v", err)
	}
}

// A secret that is too short is told by the name it has in the file, and not shown.
func TestAHooksSecretIsToldByItsPlace(t *testing.T) {
	redis, kafka := inProcess(t)
	c := config(t, t.TempDir(), redis, kafka)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Reconcile.Hooks = map[string]HookConfig{"coupon": {Webhook: &WebhookConfig{URL: "http://127.0.0.1:1/", SecretFile: file}}}
	_, err := OpenReconciler(c, "v0", slog.New(slog.DiscardHandler), false, true)
	if faults := tierlock.Invalids(err); len(faults) != 1 || faults[0].Field != "reconcile.hooks.coupon.webhook.secret_file" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// coupons is a business service with a webhook: a record has one claim.
type coupons struct {
	mu      sync.Mutex
	secret  []byte
	claims  int
	applied map[string]bool
}

func (s *coupons) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := reconcile.ReadWebhook(s.secret, req)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusUnauthorized)
	case q.Ask == "check":
		_ = json.NewEncoder(w).Encode(reconcile.WebhookAnswer{Wrong: int64(s.claims - 1)})
	default:
		if !s.applied[q.Key] {
			s.claims, s.applied[q.Key] = s.claims-1, true
		}
		_ = json.NewEncoder(w).Encode(reconcile.WebhookAnswer{Result: reconcile.ResultApplied})
	}
}

// TestAWebhookOfTheFileRepairs: two daemons grant one coupon twice, and the job of the file
// has the business service look and repair.
func TestAWebhookOfTheFileRepairs(t *testing.T) {
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	claimTwice(t, dir, redis, kafka, func(tierlock.RequestID) {})
	s := &coupons{secret: []byte(strings.Repeat("k", 32)), claims: 2, applied: map[string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("HOOK_SECRET", string(s.secret))
	c := config(t, dir, redis, kafka)
	c.Reconcile.Hooks = map[string]HookConfig{"coupon": {Apply: "auto", Webhook: &WebhookConfig{URL: server.URL, SecretEnv: "HOOK_SECRET"}}}
	for _, step := range []struct {
		apply  bool
		want   reconcile.Result
		claims int
	}{{false, reconcile.ResultWould, 2}, {true, reconcile.ResultApplied, 1}} {
		report, log := reconciled(t, c, step.apply)
		if report.Repairs[step.want] != 1 || s.claims != step.claims {
			t.Errorf("apply %t: repairs %v, %d claims, want one %s and %d\n%s", step.apply, report.Repairs, s.claims, step.want, step.claims, log)
		}
	}
}

// TestAMessageOfTheFileRepairs: the same, looked at by the service and repaired by a message
// on a real Kafka.
func TestAMessageOfTheFileRepairs(t *testing.T) {
	servers.Need(t, "Kafka")
	redis, _ := inProcess(t)
	kafkaAddr, dir := servers.Kafka(t).Addr(), t.TempDir()
	claimTwice(t, dir, redis, kafkaAddr, func(tierlock.RequestID) {})
	s := &coupons{secret: []byte(strings.Repeat("k", 32)), claims: 2, applied: map[string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("HOOK_SECRET", string(s.secret))
	pool := &kafka.Transport{}
	t.Cleanup(pool.CloseIdleConnections)
	client := &kafka.Client{Addr: kafka.TCP(kafkaAddr), Transport: pool, Timeout: 30 * time.Second}
	made, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "coupons.v1", NumPartitions: 1, ReplicationFactor: 1}}})
	if err != nil || made.Errors["coupons.v1"] != nil {
		t.Fatal(err, made)
	}
	c := config(t, dir, redis, kafkaAddr)
	c.Reconcile.Hooks = map[string]HookConfig{"coupon": {
		Apply: "auto", Action: "give_back", Webhook: &WebhookConfig{URL: server.URL, SecretEnv: "HOOK_SECRET"}, Publish: &PublishConfig{Topic: "coupons.v1"},
	}}
	if report, log := reconciled(t, c, true); report.Repairs[reconcile.ResultApplied] != 1 || s.claims != 2 {
		t.Errorf("repairs %v, %d claims\n%s", report.Repairs, s.claims, log)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := client.Fetch(ctx, &kafka.FetchRequest{Topic: "coupons.v1", MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
	if err != nil || res.Error != nil {
		t.Fatal(err, res)
	}
	r, err := res.Records.ReadRecord()
	if err != nil {
		t.Fatal(err)
	}
	var said reconcile.Republished
	if err := json.NewDecoder(r.Value).Decode(&said); err != nil || said.ID != "u42-c7" || said.Action != "give_back" || len(r.Headers) != 2 ||
		r.Headers[0].Key != kafkasource.HeaderIdempotencyKey || string(r.Headers[0].Value) != said.Repair {
		t.Errorf("%+v, headers %v, %v", said, r.Headers, err)
	}
}

// TestPeopleDecideOverARepair goes the whole way on PostgreSQL: the job asks, people look and
// answer on the command line, and the next run repairs what they have agreed to.
func TestPeopleDecideOverARepair(t *testing.T) {
	servers.Need(t, "PostgreSQL")
	s := newShop(t)
	redis, kafkaAddr := inProcess(t)
	dir := t.TempDir()
	s.claimTwice(dir, redis, kafkaAddr)
	c := config(t, dir, redis, kafkaAddr)
	file := documented(t)
	c.Reconcile.Database, c.Reconcile.Hooks = file.Reconcile.Database, file.Reconcile.Hooks
	hook := c.Reconcile.Hooks["coupon"]
	hook.Apply, hook.Approvers = "approve", 2
	c.Reconcile.Hooks["coupon"] = hook
	run := func(want reconcile.Result, second string, repairs int) {
		t.Helper()
		log := new(buffer)
		r, err := openReconciler(c, "v0", slog.New(slog.NewTextHandler(log, nil)), true, true, "olga")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		if report := r.job.Report(); report.Repairs[want] != 1 {
			t.Errorf("repairs %v, want one %s\n%s", report.Repairs, want, log)
		}
		s.want(second, repairs)
	}
	run(reconcile.ResultWaiting, "claimed", 0)

	path := filepath.Join(dir, "tierlock.yaml")
	text := `{stores: {main: {kind: redis, addrs: ["127.0.0.1:1"]}}, audit: {dir: spool}, reconcile: {database: {driver: postgres, dsn_env: TIERLOCK_DSN}},
chains: {coupon: {class: weak, protects: one claim, on_lost: reconcile}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(code int, args ...string) string {
		t.Helper()
		out := new(buffer)
		p := Process{Stdout: out, Stderr: out}
		if got := p.Repairs(t.Context(), append(args, "-c", path)); got != code {
			t.Errorf("%v: code %d, want %d\n%s", args, got, code, out)
		}
		return out.String()
	}
	var listed []repairView
	if err := json.Unmarshal([]byte(ask(ExitOK, "ls", "--output", "json")), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("%v, %v", listed, err)
	}
	key := listed[0].Key
	if v := listed[0]; v.Status != reconcile.StatusPending || v.Amount != 1 || v.Waits != "2 approvals" || v.AskedBy != "olga" || v.LockKey.String() != "biz:coupon:lock:u42-c7" {
		t.Errorf("%+v", v)
	}
	for _, bad := range []struct {
		code int
		want string
		args []string
	}{
		{ExitUsage, "want ls, show, approve or reject", nil},
		{ExitUsage, "want ls, show, approve or reject", []string{"aprove", key}},
		{ExitUsage, "--by", []string{"approve", key}},
		{ExitUsage, "KEY", []string{"approve", "--by", "anna"}},
		{ExitUsage, "--reason", []string{"reject", key, "--by", "anna"}},
		{ExitError, "nobody asks for this repair: no-such-key: say the whole key as ls --all prints it", []string{"approve", "no-such-key", "--by", "anna"}},
		{ExitError, "may not approve it: " + key + "  pending   give_back coupon u42-c7  wrong 1", []string{"approve", key, "--by", "Olga"}},
		{ExitError, "another amount is asked for now: " + key + "  pending   give_back coupon u42-c7  wrong 1", []string{"approve", key, "--by", "anna", "--amount", "2"}},
	} {
		if text := ask(bad.code, bad.args...); !strings.Contains(text, bad.want) {
			t.Errorf("%v: %s", bad.args, text)
		}
	}
	if text := ask(ExitOK, "approve", key, "--by", "Anna", "--amount", "1"); !strings.Contains(text, "waits for 1 approval, beside anna") {
		t.Errorf("%s", text)
	}
	if text := ask(ExitOK, "approve", key, "--by", "bert"); !strings.Contains(text, "approved  give_back coupon u42-c7  wrong 1") {
		t.Errorf("%s", text)
	}
	run(reconcile.ResultApplied, "given_back", 1)
	if text := ask(ExitOK, "ls"); text != "0 repairs\n" {
		t.Errorf("%s", text)
	}
	if text := ask(ExitOK, "ls", "--all"); !strings.Contains(text, "  applied by anna, bert\n") {
		t.Errorf("who has said yes is told afterwards too: %s", text)
	}
	if text := ask(ExitOK, "show", key); !strings.Contains(text, "yes by anna") || !strings.Contains(text, "yes by bert") || !strings.Contains(text, "applied") {
		t.Errorf("%s", text)
	}
	if text := ask(ExitError, "reject", key, "--by", "carl", "--reason", "too late"); !strings.Contains(text, "decided") {
		t.Errorf("%s", text)
	}
	out := new(buffer)
	if code := (Process{Stdout: out, Stderr: out}).listFindings(t.Context(), c, "text"); code != ExitOK || !strings.Contains(out.String(), "applied   wrong 1  by anna, bert") {
		t.Errorf("code %d\n%s", code, out)
	}
}

// TestDeadLettersAreReplayed: a letter that can be read is put back by --apply, one that
// cannot stays and makes the command fail.
func TestDeadLettersAreReplayed(t *testing.T) {
	redis, kafkaAddr := inProcess(t)
	dir := t.TempDir()
	overlap(t, dir, redis, kafkaAddr)
	c := config(t, dir, redis, kafkaAddr)
	if report, log := reconciled(t, c, false); report.Findings != 1 { // it makes the topics too
		t.Fatalf("%+v\n%s", report, log)
	}
	dead, err := kafkasource.NewDeadLetters(kafkasource.Config{Brokers: []string{kafkaAddr}})
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	ev := audit.Event{Type: audit.TypeHeartbeat, Producer: "p", Epoch: 1, Seq: 1, At: time.Now()}
	bury := func(value string) {
		t.Helper()
		if err := dead.Write(t.Context(), reconcile.Record{Key: []byte("k"), Value: []byte(value)}, errors.New("no event")); err != nil {
			t.Fatal(err)
		}
	}
	bury(string(ev.AppendJSON(nil)))
	replay := func(code int, apply bool, format string) string {
		t.Helper()
		out := new(buffer)
		if got := (Process{Stdout: out, Stderr: out}).replayLetters(t.Context(), c, apply, format); got != code {
			t.Errorf("code %d, want %d\n%s", got, code, out)
		}
		return out.String()
	}
	if text := replay(ExitOK, false, "text"); text != "1 dead letter: 1 can be read now, 0 put back, 0 stay\nnothing was put back: --apply does\n" {
		t.Errorf("%s", text)
	}
	bury("{")
	if text := replay(ExitError, true, "json"); !strings.HasPrefix(text, `{"letters":2,"good":1,"replayed":1,"bad":1,"stay":[{"partition":2,"offset":1,"to":0,"reason":"no event","class":"malformed","fault":`) {
		t.Errorf("%s", text)
	}
	if text := replay(ExitError, true, "text"); !strings.HasSuffix(text, "1 dead letter: 0 can be read now, 0 put back, 1 stay\n") || !strings.HasPrefix(text, "2/1  ") {
		t.Errorf("%s", text)
	}
}
