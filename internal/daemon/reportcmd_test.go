package daemon

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/incident"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

func reportIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Report(t.Context(), args) }
}

func whyIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Why(t.Context(), args) }
}

// reported runs tierlock report and reads its JSON back.
func reported(t *testing.T, wantCode int, args ...string) *incident.Report {
	t.Helper()
	code, stdout, stderr := command(t, reportIn(t), append(args, "--output", "json")...)
	if code != wantCode {
		t.Fatalf("code %d, want %d\n%s\n%s", code, wantCode, stdout, stderr)
	}
	d, err := incident.Parse([]byte(stdout))
	if err != nil {
		t.Fatal(err)
	}
	return d.Report
}

// TestTheReportOnRealServers tells a known story through a real Kafka, repairs through a
// real PostgreSQL, and compares every number of the report with what was made.
func TestTheReportOnRealServers(t *testing.T) {
	servers.Need(t, "Redis, Kafka and PostgreSQL")
	s := newShop(t)
	p := newPast(t).tell()
	kafka := servers.Kafka(t).Addr()
	makeTopic(t, kafka, kafkasource.EventsTopic, 3, nil) // not the sink's: the past is made by the producers' clock here
	file := p.file(servers.Redis(t).Addr(), kafka, `  database: {driver: postgres, dsn_env: TIERLOCK_DSN}
  hooks:
    coupon:
      apply: auto
      check: SELECT count(*) - 1 FROM claims WHERE coupon = {id} AND state = 'claimed'
      repair: ["UPDATE claims SET state = 'given_back' WHERE coupon = {id} AND n = (SELECT max(n) FROM claims WHERE coupon = {id} AND state = 'claimed')"]
`)
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p.send(c)
	for i := range pairs {
		s.do(`INSERT INTO claims (coupon, holder, state) VALUES ($1, 'a', 'claimed'), ($1, 'b', 'claimed')`, fmt.Sprint("u", i))
	}
	for _, id := range []string{"s1", "s2", "maybe"} {
		s.do(`INSERT INTO claims (coupon, holder, state) VALUES ($1, 'a', 'claimed')`, id)
	}
	s.repair(c)
	// Two records go wrong that no overlap explains: one that was repaired, one that never
	// was in a conflict. The report must find both, for it looks at the whole period.
	s.do(`INSERT INTO claims (coupon, holder, state) VALUES ('u1', 'c', 'claimed'), ('s0', 'a', 'claimed'), ('s0', 'b', 'claimed'), ('s0', 'c', 'claimed')`)

	out := filepath.Join(t.TempDir(), "report.json")
	r := reported(t, ExitOpen, "-c", file, "--incident", p.incident(), "--by", "kim", "--owner", "coupon=growth team", "--expect", "shop-1,shop-2", "--four-eyes", "--out", out)
	wantNumbers(t, p, r)
	wantOrders(t, p, r)
	wantCertificate(t, p, r)
	life(t, out)
	whyOnRealServers(t, p, file)

	// With one bypass grant less in the stream the certificate names it.
	p = newPast(t)
	p.begin = p.begin.Add(time.Second)
	p.put("shop-3", audit.Event{Type: audit.TypeHello, At: p.at(time.Minute)})
	p.lose = true
	p.grant("shop-3", "lost", tierlock.Bypass, 2*time.Minute, 0, false)
	p.put("shop-3", audit.Event{Type: audit.TypeSeal, At: p.at(36 * time.Minute), Sealed: 1, First: 1, Last: 2, Clean: true})
	p.send(c)
	r = reported(t, ExitOpen, "-c", file, "--incident", p.incident(), "--by", "kim")
	if g := r.Certificate.Gaps; r.Certificate.Bypass || len(g) != 1 || g[0].Producer != "shop-3" || g[0].From != 2 || g[0].To != 2 || !g[0].Bypass {
		t.Errorf("gaps %+v", g)
	}
}

// repair lets the job work until every finding has been looked at.
func (s shop) repair(c Config) {
	s.Helper()
	log := new(buffer)
	r, err := OpenReconciler(c, "v0", slog.New(slog.NewTextHandler(log, nil)), true, false)
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			s.Errorf("run: %v\n%s", err, log)
		}
	}()
	until(s.T, "all is repaired", func() bool {
		var done int
		err := s.db.QueryRowContext(s.Context(), `SELECT count(*) FROM tierlock_findings WHERE state IN ('repaired', 'clean')`).Scan(&done)
		return err == nil && done == pairs+1
	})
}

func wantNumbers(t *testing.T, p *past, r *incident.Report) {
	t.Helper()
	const records = pairs + singles + 5 + 1 + 6 + 4 + 1 // pairs, singles, local, maybe, stock, shared, the one that reaches in
	want := incident.Total{
		Bypassed: 2*pairs + singles, Local: 7, Optimistic: 6, Refused: 10, Shared: 4, Conflicts: pairs + 1, Certain: pairs, Possible: 1, Open: 2,
		Records: records, Checked: records - 6, Wrong: 2,
	}
	if r.Total != want {
		t.Errorf("total %+v\nwant  %+v", r.Total, want)
	}
	if want := []incident.Requests{
		{Chain: "coupon", Tier: tierlock.Shared, Granted: 4, Released: 4, Committed: 4},
		{Chain: "coupon", Tier: tierlock.Local, Granted: 7, Released: 6, Untold: 1, Committed: 6},
		{Chain: "coupon", Tier: tierlock.Bypass, Granted: 2*pairs + singles, Released: 2*pairs + singles, Committed: 2*pairs + singles},
	}; !reflect.DeepEqual(r.Requests, want) {
		t.Errorf("requests %+v", r.Requests)
	}
	if want := []incident.Optimistic{{Chain: "order", Reason: tierlock.ReasonSlow, Answers: 6, Committed: 2, RolledBack: 1, Untold: 3}}; !reflect.DeepEqual(r.Optimistic, want) {
		t.Errorf("optimistic %+v", r.Optimistic)
	}
	if want := []incident.Refused{{Chain: "order", Answer: "system_error down", Count: 10}}; !reflect.DeepEqual(r.Refused, want) {
		t.Errorf("refused %+v", r.Refused)
	}
	if want := map[string]int{"bypass": pairs, "local_elsewhere": 1}; !reflect.DeepEqual(r.Causes, want) {
		t.Errorf("causes %v", r.Causes)
	}
	// Each of the 11 losers told 3; 10 were repaired, 1 wrong each; u1 and s0 are wrong now.
	if want := []incident.Amount{{Type: "coupon", AtRisk: 3 * (pairs + 1), Repaired: pairs, Open: 1 + 2}}; !reflect.DeepEqual(r.Amounts, want) {
		t.Errorf("amounts %+v, want %+v", r.Amounts, want)
	}
	if want := []incident.Check{{Type: "coupon", Records: records - 6, Clean: records - 8, Wrong: 2}, {Type: "stock", Records: 6, Unchecked: 6}}; !reflect.DeepEqual(r.Checks, want) {
		t.Errorf("checks %+v", r.Checks)
	}
	by := map[string]incident.Record{}
	for _, x := range r.Records {
		by[x.ID] = x
	}
	for id, want := range map[string]struct {
		action          string
		wrong, repaired int64
		conflicts       int
	}{
		"u0": {"repaired", 0, 1, 1}, "u1": {"repaired, and wrong again", 1, 1, 1}, "s0": {"nothing yet", 2, 0, 0}, "s1": {"checked: nothing was wrong", 0, 0, 0},
		"maybe": {"checked: nothing was wrong", 0, 0, 1},
	} {
		if x := by[id]; x.Action != want.action || x.Wrong != want.wrong || x.Repaired != want.repaired || len(x.Conflicts) != want.conflicts || x.Owner != "growth team" {
			t.Errorf("%s: %+v", id, x)
		}
	}
	for _, x := range r.Conflicts {
		state := reconcile.StateRepaired
		if !x.Certain {
			state = reconcile.StateClean
		}
		if x.Holds != 2 || x.Pairs != 1 || x.Where != incident.Both || x.State != state || x.Open || len(x.Members) != 2 {
			t.Errorf("conflict %+v", x)
		}
	}
	if r.Author != "kim" || !r.FourEyes || !r.From.Equal(p.begin) || !r.To.Equal(p.at(30*time.Minute)) {
		t.Errorf("made by %s for %s to %s", r.Author, r.From, r.To)
	}
}

func wantOrders(t *testing.T, p *past, r *incident.Report) {
	t.Helper()
	want := []incident.Order{
		{Version: 7, First: p.at(5 * time.Minute), Last: p.at(19 * time.Minute), Processes: 2},
		{
			Version: 7, Chain: "coupon", Reason: "store under attack", First: p.at(6 * time.Minute), Last: p.at(8*time.Minute + 19*time.Second),
			Grants: 2*pairs + singles, Bypass: 2*pairs + singles, Processes: 2,
		},
	}
	if !reflect.DeepEqual(r.Orders, want) {
		t.Errorf("orders %+v\nwant   %+v", r.Orders, want)
	}
	var degraded []incident.Stretch
	for _, shop := range []string{"shop-1", "shop-2"} {
		degraded = append(degraded, incident.Stretch{Chain: "coupon", Producer: shop, Tier: "bypass", From: p.at(5 * time.Minute), To: p.at(20 * time.Minute)})
	}
	if !reflect.DeepEqual(r.Degraded, degraded) {
		t.Errorf("degraded %+v", r.Degraded)
	}
}

func wantCertificate(t *testing.T, p *past, r *incident.Report) {
	t.Helper()
	c := r.Certificate
	if !c.Bypass || !c.Complete || len(c.Gaps)+len(c.Tails)+len(c.Unknown)+len(c.Malformed)+len(c.Blind) != 0 {
		t.Errorf("certificate %+v", c)
	}
	// Reading begins 11 minutes before the period; what is older is not needed.
	count := map[int][2]int64{}
	for _, m := range p.msgs {
		n := count[m.WriterData.(int)]
		n[0]++
		if m.Time.Before(p.at(-11 * time.Minute)) {
			n[1]++
		}
		count[m.WriterData.(int)] = n
	}
	for i, x := range c.Partitions {
		if n := count[i]; x.Partition != i || x.Oldest != 0 || x.From != n[1] || x.To != n[0] || x.Records != n[0]-n[1] {
			t.Errorf("partition %+v, want from %d to %d", x, n[1], n[0])
		}
	}
	for i, x := range c.Producers {
		if x.Producer != fmt.Sprint("shop-", i+1) || !x.Sealed || !x.Last.Equal(p.at(36*time.Minute)) || !reflect.DeepEqual(x.Versions, []uint64{0, 7}) {
			t.Errorf("producer %+v", x)
		}
	}
	if len(c.Partitions) != pastPartitions || len(c.Producers) != 2 {
		t.Errorf("%d partitions, %d producers", len(c.Partitions), len(c.Producers))
	}
}

// life takes a kept report to its signature, through the command line.
func life(t *testing.T, file string) {
	t.Helper()
	dir := t.TempDir()
	private, public := filepath.Join(dir, "key.pem"), filepath.Join(dir, "pub.pem")
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, _ := x509.MarshalPKCS8PrivateKey(key)
	pkix, _ := x509.MarshalPKIXPublicKey(pub)
	for path, block := range map[string]*pem.Block{private: {Type: "PRIVATE KEY", Bytes: pkcs8}, public: {Type: "PUBLIC KEY", Bytes: pkix}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"verify", file}, ExitError, "a draft is not frozen"},
		{[]string{"sign", file, "--by", "cy", "--key", private}, ExitUsage, "is to be reviewed before it is signed"},
		{[]string{"assign", file, "--by", "kim", "--record", "coupon:s0", "--action", "two vouchers sent", "--settled"}, ExitOK, "is draft, 1 open"},
		{[]string{"review", file, "--by", "Kim"}, ExitUsage, "somebody else must review it"},
		{[]string{"review", file, "--by", "ana"}, ExitOK, "is reviewed"},
		{[]string{"assign", file, "--by", "kim", "--record", "coupon:s0", "--owner", "x"}, ExitUsage, "a frozen report is not changed"},
		{[]string{"verify", file}, ExitOK, "reviewed by ana"},
		{[]string{"verify", file, "--pub", public}, ExitError, "is not signed"},
		{[]string{"sign", file, "--by", "cy", "--key", public}, ExitUsage, "want an Ed25519 private key"},
		{[]string{"sign", file, "--by", "cy", "--key", private}, ExitOK, "is signed"},
		{[]string{"verify", file, "--pub", public}, ExitOK, "the signature is good"},
		{[]string{"review", file, "--by", "bo"}, ExitUsage, "a signed report is not reviewed any more"},
		{[]string{"show", file, "--output", "html"}, ExitOpen, "signed by cy"},
		{[]string{"show", file, "--output", "csv"}, ExitOpen, "record,coupon:s0"},
		{[]string{"show", file}, ExitOpen, "two vouchers sent"},
	} {
		if code, stdout, stderr := command(t, reportIn(t), step.args...); code != step.code || !strings.Contains(stdout+stderr, step.says) {
			t.Errorf("report %v: code %d, want %d and %q\n%s%s", step.args[:1], code, step.code, step.says, stdout, stderr)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("two vouchers sent"), []byte("six vouchers sent"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, reportIn(t), "verify", file, "--pub", public); code != ExitError || !strings.Contains(stderr, "was changed after it was frozen") || strings.Count(stderr, "tierlock: ") != 1 {
		t.Errorf("code %d for a changed report\n%s", code, stderr)
	}
}

func whyOnRealServers(t *testing.T, p *past, file string) {
	t.Helper()
	at := p.at(6*time.Minute + 3*time.Second + 150*time.Millisecond).Format(time.RFC3339Nano)
	code, stdout, stderr := command(t, whyIn(t), "-c", file, "--biz", "coupon:u3", "--at", at, "--output", "json")
	var a incident.Answer
	if err := json.Unmarshal([]byte(stdout), &a); err != nil || code != ExitOK {
		t.Fatalf("code %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	if len(a.Holds) != 2 || !a.Complete || len(a.Conflicts) != 1 || a.Conflicts[0].State != reconcile.StateRepaired {
		t.Fatalf("%s", stdout)
	}
	for i, h := range a.Holds {
		if h.When != incident.WhenHeld || h.Hold.Tier != tierlock.Bypass || h.Hold.Producer != fmt.Sprint("shop-", i+1) || len(h.Overlaps) != 1 || !strings.Contains(h.Why, "version 7 (store under attack)") {
			t.Errorf("hold %+v", h)
		}
	}
	if a.Holds[1].Action != "repair applied" {
		t.Errorf("action %q", a.Holds[1].Action)
	}
}

// TestReportAndWhyWithoutADatabase runs both against the broker in the process.
func TestReportAndWhyWithoutADatabase(t *testing.T) {
	redis, broker := inProcess(t)
	p := newPast(t).tell()
	file := p.file(redis, broker, "")
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p.send(c)
	r := reported(t, ExitOpen, "-c", file, "--incident", p.incident(), "--by", "kim")
	if r.Total.Conflicts != pairs+1 || r.Total.Open != pairs+1 || r.Total.Checked != 0 || !r.Certificate.Complete {
		t.Errorf("total %+v, certificate %+v", r.Total, r.Certificate)
	}
	quiet := p.at(9*time.Minute).Format(time.RFC3339) + ".." + p.at(10*time.Minute).Format(time.RFC3339)
	if r := reported(t, ExitOK, "-c", file, "--incident", quiet, "--by", "kim"); r.Total.Bypassed != 0 || r.Total.Records != 0 {
		t.Errorf("total %+v", r.Total)
	}
	code, stdout, stderr := command(t, whyIn(t), "-c", file, "--key", "biz:coupon:lock:u3", "--at", p.at(6*time.Minute+3*time.Second+150*time.Millisecond).Format(time.RFC3339Nano))
	if code != ExitOK || strings.Count(stdout, "\nheld ") != 2 || !strings.Contains(stdout, "overlaps ") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
}

func TestReportAndWhyRefuseBadInput(t *testing.T) {
	good := write(t, example)
	noKafka := write(t, strings.Replace(example, `, kafka: {brokers: ["127.0.0.1:9092"], topic: tierlock.events.v1}`, "", 1))
	const period = "2026-11-29T10:00:00Z..2026-11-29T10:30:00Z"
	broken := write(t, "{}")
	for _, x := range []struct {
		f    func(Process, []string) int
		args []string
		says string
	}{
		{reportIn(t), nil, "want --incident FROM..TO"},
		{reportIn(t), []string{"--incident", period}, "want -c FILE"},
		{reportIn(t), []string{"-c", good, "--incident", "today"}, "want FROM..TO"},
		{reportIn(t), []string{"-c", noKafka, "--incident", period, "--by", "kim"}, "audit.kafka: is required"},
		{reportIn(t), []string{"-c", good, "--incident", period, "--by", "kim\n"}, "by"},
		{reportIn(t), []string{"-c", good, "--incident", period, "--by", "kim", "--max-records", "-1"}, "max_records"},
		{reportIn(t), []string{"-c", good, "--incident", period, "--by", "kim", "--out", broken}, "is there already"},
		{reportIn(t), []string{"-c", good, "--incident", period, "--output", "xml"}, "want text, json, csv or html"},
		{reportIn(t), []string{"burn", "x"}, `no "burn"`},
		{reportIn(t), []string{"sign"}, "want sign FILE"},
		{reportIn(t), []string{"sign", broken, "--by", "cy"}, "want --key FILE"},
		{reportIn(t), []string{"show", broken}, "want tierlock incident report 1"},
		{reportIn(t), []string{"assign", broken, "--by", "x", "--record", "coupon"}, "want --record TYPE:ID"},
		{reportIn(t), []string{"review", "/nowhere", "--by", "x"}, "cannot be read"},
		{whyIn(t), []string{"-c", good, "--biz", "coupon:1"}, "at: is required"},
		{whyIn(t), []string{"-c", good, "--at", "2026-11-29T10:00:00Z"}, "biz: is required"},
		{whyIn(t), []string{"-c", good, "--key", "a b", "--at", "2026-11-29T10:00:00Z"}, "key"},
		{whyIn(t), []string{"-c", good, "--key", "foo", "--at", "2026-11-29T10:00:00Z"}, `key "foo": want <prefix>:<chain>:lock:<id>`},
		{whyIn(t), []string{"-c", good, "--key", "biz:coupon:u3", "--at", "2026-11-29T10:00:00Z"}, "want <prefix>:<chain>:lock:<id>"},
		{whyIn(t), []string{"-c", good, "--key", "coupon:digest:12", "--at", "2026-11-29T10:00:00Z"}, "want <prefix>:<chain>:lock:<id>"},
	} {
		if code, stdout, stderr := command(t, x.f, x.args...); code != ExitUsage || !strings.Contains(stderr, x.says) || stdout != "" {
			t.Errorf("%v: code %d\n%s%s", x.args, code, stdout, stderr)
		}
	}
}

// TestTheReportOfWhatDaemonsWrote: two daemons let one coupon through twice under an order,
// and refuse what they are then told to.
func TestTheReportOfWhatDaemonsWrote(t *testing.T) {
	redis, broker := inProcess(t)
	dir := t.TempDir()
	p := &past{T: t, begin: time.Now().UTC().Add(-time.Second)}
	overlap(t, dir, redis, broker)

	c := config(t, filepath.Join(dir, "1"), redis, broker)
	c.Instance, c.Switch.File, c.Audit.Heartbeat = "1", filepath.Join(dir, "switch.yaml"), 100*time.Millisecond
	writeOrder(t, c.Switch.File, 2, "reject")
	d := run(t, c)
	until(t, "the order is in force", func() bool { return d.gw.AppliedVersion() == 2 })
	for range 3 {
		d.want("/v1/try", `{"key":"biz:coupon:lock:u42-c8"}`, `503 {"outcome":"system_error"`)
	}
	counted := func() bool { // by a heartbeat that is in Kafka
		r := reported(t, ExitOpen, "-c", p.file(redis, broker, ""), "--incident", p.until(time.Now()), "--by", "kim")
		return r.Total.Refused == 3
	}
	until(t, "a heartbeat tells what was refused", counted)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	r := reported(t, ExitOpen, "-c", p.file(redis, broker, ""), "--incident", p.until(time.Now()), "--by", "kim")
	if r.Total.Bypassed != 2 || r.Total.Conflicts != 1 || r.Total.Certain+r.Total.Possible != 1 || r.Total.Refused != 3 || !r.Certificate.Complete {
		text, _ := json.MarshalIndent(r, "", " ")
		t.Errorf("%s", text)
	}
	if want := []incident.Refused{{Chain: "coupon", Answer: "system_error forced", Count: 3}}; !reflect.DeepEqual(r.Refused, want) {
		t.Errorf("refused %+v", r.Refused)
	}
	versions := map[uint64]bool{}
	for _, o := range r.Orders {
		versions[o.Version] = true
	}
	if !versions[1] || !versions[2] {
		t.Errorf("orders %+v", r.Orders)
	}
}

func (p *past) until(to time.Time) string {
	return p.begin.Format(time.RFC3339Nano) + ".." + to.UTC().Format(time.RFC3339Nano)
}

// TestReviewsAtOnceAllStand: each reviewer who was told so has reviewed.
func TestReviewsAtOnceAllStand(t *testing.T) {
	begin := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	text, err := incident.New(&incident.Report{From: begin, To: begin.Add(time.Hour), At: begin.Add(time.Hour), Author: "kim"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, string(text))
	const reviewers = 16
	var all sync.WaitGroup
	for i := range reviewers {
		all.Go(func() {
			if code, stdout, stderr := command(t, reportIn(t), "review", file, "--by", fmt.Sprint("reviewer ", i)); code != ExitOK {
				t.Errorf("code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
	all.Wait()
	d, err := readReport(file)
	if err != nil || len(d.Reviews) != reviewers {
		t.Fatalf("%d reviews stand of %d that were told to, %v", len(d.Reviews), reviewers, err)
	}
}
