package daemon

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// of are the checks of a group, as "grade check: found".
func of(found []checkup, group string) (all []string) {
	for _, c := range found {
		if c.Group == group {
			all = append(all, c.Grade+" "+c.Check+": "+c.Found)
		}
	}
	return all
}

// wantCheck fails unless a group has a check that begins so and holds the words.
func wantCheck(t *testing.T, found []checkup, group, begins, holds string) {
	t.Helper()
	all := of(found, group)
	if !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, begins) && strings.Contains(s, holds) }) {
		t.Errorf("%s: no %q with %q in\n%s", group, begins, holds, strings.Join(all, "\n"))
	}
}

// wantNoFault fails on warnings and failures of a group.
func wantNoFault(t *testing.T, found []checkup, group string) {
	t.Helper()
	for _, c := range found {
		if c.Group == group && c.Grade != gradeOK {
			t.Errorf("%+v", c)
		}
	}
	if len(of(found, group)) == 0 {
		t.Errorf("%s was not looked at", group)
	}
}

// diagnosed runs doctor on the text of a file.
func diagnosed(t *testing.T, text string, args ...string) (d diagnosis, code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tierlock.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	p := Process{Stdout: &out, Stderr: &log}
	code = p.Doctor(t.Context(), append([]string{"-c", file}, args...))
	if slices.Contains(args, "json") {
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
	}
	return d, code, out.String(), log.String()
}

const doctorChains = `
chains:
  order: {class: strong, protects: "one sale of a sku at a time", on_lost: fence}
  coupon: {class: weak, protects: "one claim of a coupon per user at a time", on_lost: reconcile}
`

func TestDoctorSaysNothingIsThereAndWhatToDo(t *testing.T) {
	text := fmt.Sprintf("stores: {main: {kind: redis, addrs: [%q]}}\naudit: {dir: %q, kafka: {brokers: [%q]}}\nswitch: {http: {url: \"http://%s/switch\"}}\n",
		nobody(t), filepath.Join(t.TempDir(), "spool"), nobody(t), nobody(t)) + doctorChains
	d, code, _, _ := diagnosed(t, text, "--timeout", "3s", "--output", "json")
	if code != ExitError || d.Grade != gradeFail {
		t.Errorf("code %d, %s", code, d.Grade)
	}
	wantCheck(t, d.Checks, "store main", "fail reach:", "connection refused")
	wantCheck(t, d.Checks, "kafka", "fail reach:", "")
	wantCheck(t, d.Checks, "switch", "fail reach:", "connection refused")
	for _, c := range d.Checks {
		if (c.Grade == gradeOK) != (c.Remedy == "") {
			t.Errorf("a remedy that is missing, or for nothing: %+v", c)
		}
	}
	if _, err := os.Stat(filepath.Join(t.TempDir(), "spool")); err == nil {
		t.Error("it made the folder of the spool")
	}
}

func TestDoctorRefusesAConfigurationThatIsWrong(t *testing.T) {
	_, code, _, stderr := diagnosed(t, "stores: {main: {kind: redis}}\nchains: {order: {class: strong, on_lost: fence}}\n")
	if code != ExitUsage || !strings.Contains(stderr, "stores.main.addrs") || !strings.Contains(stderr, "chains.order.protects") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// A group that does not come back is told so, in time; the others are told all the same.
func TestDoctorLeavesBehindWhatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		groups := []group{
			{"dead", func(context.Context, *examiner) { <-hangs }},
			{"late", func(ctx context.Context, e *examiner) { <-ctx.Done(); e.ok("late", "%v", ctx.Err()) }},
			{"well", func(_ context.Context, e *examiner) { e.ok("all", "well") }},
		}
		began := time.Now()
		found := examine(t.Context(), groups, time.Minute)
		if took := time.Since(began); took != 61*time.Second {
			t.Errorf("it took %v", took)
		}
		close(hangs)
		wantCheck(t, found, "dead", "fail answer:", "nothing came back")
		wantCheck(t, found, "late", "ok late:", context.DeadlineExceeded.Error())
		wantCheck(t, found, "well", "ok all:", "well")
	})
}

func TestDoctorFindsWhatIsAllowedAndRarelyMeant(t *testing.T) {
	c, err := Parse([]byte(`
stores: {main: {kind: redis, addrs: ["127.0.0.1:1"]}}
audit: {dir: /nowhere}
listen: {remote: true}
chains:
  good: {class: strong, protects: "a", on_lost: fence}
  mute: {class: weak, protects: "b", on_lost: reconcile, audit: "off"}
  bare: {class: strong, protects: "c", on_lost: cancel, fencing: false}
  shed: {class: weak, protects: "d", on_lost: fence, on_full: shed, observe: true, wait: 100ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	e := examiner{group: "policy"}
	c.doctorPolicy(t.Context(), &e)
	for begins, holds := range map[string]string{
		"ok good:": "strong", "warn mute:": "records nothing", "warn bare:": "without a token", "warn switch:": "there is none",
		"warn audit.kafka:": "stays on this host", "warn listen:": "nobody is asked",
	} {
		wantCheck(t, e.found, "policy", begins, holds)
	}
	for _, holds := range []string{"on_full: shed", "only watches", "less than one attempt", "carry no token"} {
		wantCheck(t, e.found, "policy", "warn shed:", holds)
	}
}

func TestDoctorKnowsNamesThatDoNotStay(t *testing.T) {
	for host, want := range map[string]string{
		"shop-1.example.com": "ok", "tierlock-0": "ok", "ip-10-0-0-12": "ok", "worker-node-7": "ok",
		"3f2a9c1d77b0": "warn", "shop-order-7d9c6f8b5c-x2x7k": "warn", "localhost": "warn", "": "warn",
	} {
		e := examiner{group: "host"}
		(&Config{}).judgeName(&e, host, nil)
		if e.found[0].Grade != want {
			t.Errorf("%q: %+v", host, e.found[0])
		}
	}
	e := examiner{group: "host"}
	(&Config{Instance: "shop-1"}).judgeName(&e, "", errors.New("no name"))
	wantNoFault(t, e.found, "host")
}

func TestDoctorJudgesClocksRightsAndVersions(t *testing.T) {
	for _, c := range []struct {
		x           redisstore.Examination
		begins, has string
	}{
		{redisstore.Examination{Version: "6.2.14"}, "fail version:", "6.2.14"},
		{redisstore.Examination{Version: "7.0.15"}, "ok version:", "7.0.15"},
		{redisstore.Examination{}, "warn version:", "does not tell"},
		{redisstore.Examination{ClockKnown: true, ClockOffset: 3 * time.Millisecond}, "ok clock:", "3ms"},
		{redisstore.Examination{ClockKnown: true, ClockOffset: -2 * time.Second, ClockError: time.Second}, "warn clock:", "-2s"},
		{redisstore.Examination{ClockKnown: true, ClockOffset: -2 * time.Second, ClockError: 1800 * time.Millisecond}, "ok clock:", "-2s"},
		{redisstore.Examination{ClockKnown: true, ClockOffset: time.Hour}, "fail clock:", "1h0m0s"},
		{redisstore.Examination{Denied: []string{"info", "set"}}, "fail rights:", "denies set"},
		{redisstore.Examination{Denied: []string{"info", "set"}}, "warn rights:", "denies info"},
		{redisstore.Examination{Version: "7.0.0", Eviction: "allkeys-lru"}, "warn eviction:", "without a maxmemory"},
		{redisstore.Examination{Version: "7.0.0", Eviction: "volatile-ttl", MaxMemory: 1 << 30}, "fail eviction:", "1024 MiB"},
		{redisstore.Examination{Version: "7.0.0", Eviction: "noeviction"}, "warn memory:", "keeps nothing"},
		{redisstore.Examination{Took: 150 * time.Millisecond}, "warn reach:", "150ms"},
		{redisstore.Examination{Err: errors.New("no route")}, "fail reach:", "no route"},
	} {
		cfg, err := Parse([]byte("stores: {main: {kind: redis, addrs: [\"127.0.0.1:1\"]}}\naudit: {dir: /nowhere}\n" + doctorChains))
		if err != nil {
			t.Fatal(err)
		}
		e := examiner{group: "store"}
		cfg.judgeRedis(&e, "main", &c.x)
		wantCheck(t, e.found, "store", c.begins, c.has)
	}
}

// TestDoctorLooksAndTouchesNothing: on the folder of a daemon that runs.
func TestDoctorLooksAndTouchesNothing(t *testing.T) {
	redis, kafka := inProcess(t)
	dir := t.TempDir()
	c := config(t, dir, redis, kafka)
	d := run(t, c)
	d.want("/v1/try", keyA, `200 {"outcome":"success"`)
	names := func() (all []string) {
		entries, err := os.ReadDir(filepath.Join(dir, "spool"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "cursor") { // which the daemon writes anew all the time
				all = append(all, e.Name())
			}
		}
		return all
	}
	before := names()
	found := examine(t.Context(), c.groups(), groupTimeout)
	if after := names(); !slices.Equal(before, after) {
		t.Errorf("the folder had %v, and has %v", before, after)
	}
	wantCheck(t, found, "spool", "ok folder:", "a daemon has it open")
	wantCheck(t, found, "spool", "", "sync: one takes")
	wantCheck(t, found, "switch", "ok document:", "there is none")
	wantNoFault(t, found, "host")
	d.want("/v1/unlock", keyA, `200 {"outcome":"success"}`)
}

func TestDoctorReadsTheSwitchAsADaemonDoes(t *testing.T) {
	dir := t.TempDir()
	c := config(t, dir, nobody(t), "")
	look := func() []checkup {
		e := examiner{group: "switch"}
		c.doctorSwitch(t.Context(), &e)
		return e.found
	}
	writeOrder(t, c.Switch.File, 1, "auto")
	wantNoFault(t, look(), "switch")
	writeOrder(t, c.Switch.File, 2, "bypass")
	wantCheck(t, look(), "switch", "warn order:", "coupon is ordered to bypass until")
	write := func(order string) {
		t.Helper()
		if err := os.WriteFile(c.Switch.File, []byte("version: 3\nchains: {coupon: {"+order+"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mode: bypas")
	wantCheck(t, look(), "switch", "fail document:", "bypas")
	write("mode: bypass, reason: test, by: test, until: " + time.Now().Add(48*time.Hour).UTC().Format(time.RFC3339))
	wantCheck(t, look(), "switch", "fail document:", "it is not followed")

	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	c.Switch.Verify = filepath.Join(dir, "keys.pem")
	if err := os.WriteFile(c.Switch.Verify, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	write("mode: auto")
	wantCheck(t, look(), "switch", "fail signature:", "it is not followed")
	c.Switch.Verify = ""

	delete(c.Chains, "coupon")
	writeOrder(t, c.Switch.File, 4, "bypass")
	wantCheck(t, look(), "switch", "warn document:", "does not have")
}

// TestDoctorOnRealServers: as they should be, and then each as it should not.
func TestDoctorOnRealServers(t *testing.T) {
	t.Parallel()
	servers.Need(t, "Redis and Kafka")
	redis, kafka := servers.Redis(t, "--appendonly", "yes").Addr(), servers.Kafka(t).Addr()
	text := func(redis, more, topics string) string {
		return fmt.Sprintf("instance: shop-1\nstores: {main: {kind: redis, addrs: [%q]%s}}\naudit: {dir: %q, kafka: {brokers: [%q], partitions: 3%s}}\n",
			redis, more, t.TempDir(), kafka, topics) + doctorChains
	}
	d, code, _, _ := diagnosed(t, text(redis, "", ""), "--output", "json")
	wantNoFault(t, d.Checks, "store main")
	wantNoFault(t, d.Checks, "kafka")           // topics that are not there yet
	if code != ExitOK || d.Grade != gradeWarn { // there is no switch
		t.Errorf("code %d, %s: %+v", code, d.Grade, d.Checks)
	}
	if _, code, stdout, _ := diagnosed(t, text(redis, "", ""), "--strict"); code != ExitError || !strings.Contains(stdout, "to do: configure switch.nacos") || !strings.Contains(stdout, " 0 failed") {
		t.Errorf("strict: code %d\n%s", code, stdout)
	}

	makeTopic(t, kafka, "wrong", 1, map[string]string{"cleanup.policy": "compact", "retention.ms": "3600000"})
	makeTopic(t, kafka, "wrong.findings", 1, map[string]string{"cleanup.policy": "delete"})
	makeTopic(t, kafka, "wrong.dlq", 1, nil)
	evicting := servers.Redis(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru",
		"--user", "tierlock", "on", ">secret", "~biz:*", "~{biz:*", "~tierlock:probe:*", "&*", "+@all", "-set", "-zadd").Addr()
	bad := text(evicting, ", username: tierlock, password_file: "+write(t, "secret\n"), ", topic: wrong") + "reconcile: {findings_topic: wrong.findings}\n"
	d, code, _, _ = diagnosed(t, bad, "--output", "json")
	if code != ExitError || d.Grade != gradeFail {
		t.Errorf("code %d, %s", code, d.Grade)
	}
	wantCheck(t, d.Checks, "store main", "fail eviction:", "allkeys-lru with 64 MiB")
	wantCheck(t, d.Checks, "store main", "warn memory:", "keeps nothing over a restart")
	wantCheck(t, d.Checks, "store main", "fail rights:", "denies set")
	wantCheck(t, d.Checks, "store main", "warn rights:", "denies zadd")
	wantCheck(t, d.Checks, "kafka", "fail topic:", "wrong is compacted")
	wantCheck(t, d.Checks, "kafka", "warn topic:", "wrong keeps events for 1h0m0s")
	wantCheck(t, d.Checks, "kafka", "warn topic:", "wrong has 1 partitions, audit.kafka.partitions says 3")
	wantCheck(t, d.Checks, "kafka", "warn topic:", "wrong.findings is not compacted")
	wantCheck(t, d.Checks, "kafka", "warn topic:", "wrong.dlq takes messages of")
	wantCheck(t, d.Checks, "kafka", "warn topic:", "one copy")

	d, _, _, _ = diagnosed(t, text(evicting, ", username: tierlock, password_file: "+write(t, "wrong\n"), ""), "--output", "json")
	wantCheck(t, d.Checks, "store main", "fail reach:", "WRONGPASS")
}

// makeTopic makes a topic of so many partitions with these settings.
func makeTopic(t *testing.T, addr, name string, partitions int, settings map[string]string) {
	t.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	topic := kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}
	for k, v := range settings {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: pool}
	res, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err == nil {
		err = res.Errors[name]
	}
	if err != nil {
		t.Fatal(err)
	}
}
