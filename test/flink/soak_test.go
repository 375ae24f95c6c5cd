package flink

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// TestSoakFlinkFindsWhatTheJobFinds runs both jobs over one trail on a real Kafka: same
// ids, same digests, which are taken over members, times and counts.
func TestSoakFlinkFindsWhatTheJobFinds(t *testing.T) {
	if os.Getenv("TIERLOCK_SOAK") == "" {
		t.Skip("left out: needs Flink's jars; run make soak")
	}
	jars, broker := servers.FlinkJars(t), servers.Kafka(t).Addr()
	job := flinkJob{t: t, broker: broker, topic: "trail", classpath: compileAll(t, jars) + ":" + filepath.Join(jars, "*")}
	const holds = 2500
	tr := made(t, 1, holds)
	create(t, broker, job.topic, partitions)
	found := &standing{by: map[string]reconcile.Finding{}}
	publish(t, broker, job.topic, tr.records)
	goJob(t, broker, job.topic, found)
	publish(t, broker, job.topic, tr.late) // what one host had kept for hours: the job has judged without it
	if stats := goJob(t, broker, job.topic, found); stats.Rereads == 0 {
		t.Error("nothing was late")
	}
	findings := found.overlaps()
	want := lines(t, findings, func(*reconcile.Finding) bool { return true })
	certain, causes := 0, map[reconcile.Cause]bool{}
	for i := range findings {
		certain += findings[i].CertainPairs
		for _, c := range findings[i].Causes {
			causes[c] = true
		}
	}
	t.Logf("planted %v: %d findings, %d certain pairs, causes %v", tr.planted, len(want), certain, causes)
	if certain == 0 || len(causes) != 9 || len(want) < 40 || found.gone() == 0 {
		t.Errorf("%d findings superseded or withdrawn: the trail does not try everything", found.gone())
	}
	compare(t, job.toFolder(filepath.Join(t.TempDir(), "findings")), want)

	from, to := tr.begin.Add(4*time.Second), tr.begin.Add(6*time.Second)
	within := lines(t, findings, func(f *reconcile.Finding) bool { return f.From.Before(to) && !f.To.Before(from) })
	if len(within) == len(want) {
		t.Error("the period leaves nothing out")
	}
	compare(t, job.toKafka(len(within), "--from", from.Format(time.RFC3339Nano), "--to", to.Format(time.RFC3339Nano)), within)
}

// compileAll compiles the whole job and lays the script beside it, as the jar has them.
func compileAll(t *testing.T, jars string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(source, "*.java"))
	if err != nil {
		t.Fatal(err)
	}
	dir := compile(t, filepath.Join(jars, "*"), files...)
	text, err := os.ReadFile(script)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "reconcile.sql"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// flinkJob runs the job on a cluster inside one process.
type flinkJob struct {
	t                        *testing.T
	broker, topic, classpath string
}

func (j flinkJob) run(args ...string) {
	j.t.Helper()
	all := slices.Concat([]string{
		"-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
		"--add-opens=java.base/java.time=ALL-UNNAMED", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", j.classpath, "tierlock.flink.Reconcile",
		"--brokers", j.broker, "--topic", j.topic, "--parallelism", "1",
	}, args)
	began := time.Now()
	cmd := exec.CommandContext(j.t.Context(), "java", all...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Run(); err != nil {
		j.t.Fatalf("flink: %v\n%s", err, log.Bytes())
	}
	j.t.Logf("flink %v: %s", args, time.Since(began).Round(100*time.Millisecond))
}

// toFolder has the findings written to files and reads them.
func (j flinkJob) toFolder(dir string, args ...string) []string {
	j.t.Helper()
	j.run(append(args, "--output", "dir:"+dir)...)
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			out = append(out, flinkLine(j.t, s.Bytes()))
		}
		return nil
	})
	if err != nil {
		j.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// toKafka has so many findings written to a topic and reads them, each under its id.
func (j flinkJob) toKafka(n int, args ...string) (out []string) {
	j.t.Helper()
	topic := j.topic + "-findings"
	create(j.t, j.broker, topic, 1)
	j.run(append(args, "--output", "kafka:"+topic)...)
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{j.broker}, Topic: topic, Partition: 0, MaxWait: 100 * time.Millisecond})
	defer r.Close()
	for range n {
		ctx, cancel := context.WithTimeout(j.t.Context(), time.Minute)
		m, err := r.ReadMessage(ctx)
		cancel()
		if err != nil {
			j.t.Fatalf("%d findings in the topic, want %d: %v", len(out), n, err)
		}
		l := flinkLine(j.t, m.Value)
		if !strings.HasPrefix(l, string(m.Key)+"\t") {
			j.t.Errorf("key %s of %s", m.Key, l)
		}
		out = append(out, l)
	}
	slices.Sort(out)
	return out
}

// flinkLine is a finding of the script as [told] writes one of the Go job.
func flinkLine(t *testing.T, text []byte) string {
	var f struct {
		ID, Digest, Kind, State, Chain, Key string
		Certain                             bool
		Causes, Members                     []string
		Pairs                               int
		CertainPairs                        int `json:"certain_pairs"`
		AtRiskPairs                         int `json:"at_risk_pairs"`
		Depth, Part, Carried                int
		From, To                            time.Time
	}
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if f.Kind != "overlap" || f.State != "open" && f.State != "harmless" || f.Chain != "coupon" || !strings.HasPrefix(f.Key, "biz:coupon:lock:k") || f.Certain != (f.CertainPairs > 0) {
		t.Errorf("%s", text)
	}
	return strings.Join([]string{
		f.ID, f.Digest, fmt.Sprint(f.Pairs), fmt.Sprint(f.CertainPairs), f.State, fmt.Sprint(f.AtRiskPairs), fmt.Sprint(f.Depth), fmt.Sprint(f.Part), fmt.Sprint(f.Carried),
		fmt.Sprint(f.From.UnixMicro()), fmt.Sprint(f.To.UnixMicro()), strings.Join(f.Causes, ","), strings.Join(f.Members, ","),
	}, "\t")
}

// settled has the digest of its holds alone. That of a provisional finding is also over whom it waits
// for, which a batch over the topic does not know.
func settled(t *testing.T, f reconcile.Finding) *reconcile.Finding {
	t.Helper()
	if f.Provisional {
		again := reconcile.Overlaps(reconcile.Rule{}, f.Members)
		if len(again) != 1 || again[0].ID != f.ID || again[0].Digest == f.Digest {
			t.Fatalf("a provisional finding of %d holds, judged again: %+v", len(f.Members), again)
		}
		f.Digest = again[0].Digest
	}
	return &f
}

func lines(t *testing.T, findings []reconcile.Finding, keep func(*reconcile.Finding) bool) (out []string) {
	for i := range findings {
		if keep(&findings[i]) {
			out = append(out, told(settled(t, findings[i])))
		}
	}
	slices.Sort(out)
	return out
}

func create(t *testing.T, broker, topic string, partitions int) {
	t.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(broker), Transport: pool}
	res, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err == nil {
		err = res.Errors[topic]
	}
	if err != nil {
		t.Fatal(err)
	}
}

// publish writes records in their order.
func publish(t *testing.T, broker, topic string, records [partitions][]kafka.Message) {
	t.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	where := func(m kafka.Message, _ ...int) int { return m.Partition }
	w := &kafka.Writer{Addr: kafka.TCP(broker), Topic: topic, Transport: pool, Balancer: kafka.BalancerFunc(where), RequiredAcks: kafka.RequireAll, BatchSize: 1000, BatchTimeout: time.Millisecond}
	defer w.Close()
	for n := range records {
		for chunk := range slices.Chunk(records[n], 1000) { // one call at a time keeps their order
			if err := w.WriteMessages(t.Context(), chunk...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// once is a source that ends when all that is there has been read, late events' partitions
// once more.
type once struct {
	*kafkasource.Source
	joined bool
	behind map[int]bool
}

func (o *once) Next(ctx context.Context) (reconcile.Batch, error) {
	if o.joined && len(o.behind) == 0 {
		return reconcile.Batch{}, io.EOF
	}
	b, err := o.Source.Next(ctx)
	for _, m := range b.Assigned {
		o.joined, o.behind[m.Partition] = true, true
	}
	for _, p := range b.CaughtUp {
		delete(o.behind, p)
	}
	return b, err
}

func (o *once) Rewind(ctx context.Context, partition int) error {
	o.behind[partition] = true
	return o.Source.Rewind(ctx, partition)
}

// standing keeps findings by the rule of [reconcile.Findings].
type standing struct {
	mu sync.Mutex
	by map[string]reconcile.Finding
}

func (s *standing) Put(_ context.Context, f reconcile.Finding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.by[f.ID]; !known || f.Replaces(&was) {
		s.by[f.ID] = f
	}
	for _, id := range f.Supersedes() {
		if old, known := s.by[id]; known {
			old.State = reconcile.StateSuperseded
			s.by[id] = old
		}
	}
	return nil
}

// Standing implements [reconcile.Recaller].
func (s *standing) Standing(_ context.Context, key tierlock.Key) (out []reconcile.Finding, err error) {
	for _, f := range s.overlaps() {
		if f.Key == key {
			out = append(out, f)
		}
	}
	return out, nil
}

// overlaps are those that stand.
func (s *standing) overlaps() (out []reconcile.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		if f.Kind == reconcile.KindOverlap && f.State != reconcile.StateSuperseded && f.State != reconcile.StateWithdrawn {
			out = append(out, f)
		}
	}
	return out
}

// gone counts the overlaps that do not stand any more.
func (s *standing) gone() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		if f.State == reconcile.StateSuperseded || f.State == reconcile.StateWithdrawn {
			n++
		}
	}
	return n
}

// goJob is the Go job over what is in the topic, as one member that comes and goes.
func goJob(t *testing.T, broker, topic string, found *standing) reconcile.Stats {
	t.Helper()
	source, err := kafkasource.New(kafkasource.Config{Brokers: []string{broker}, Topic: topic, Group: topic})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close(context.WithoutCancel(t.Context()))
	job, err := reconcile.New(reconcile.Config{Source: &once{Source: source, behind: map[int]bool{}}, Findings: []reconcile.Findings{found}})
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the Go job: %+v", job.Stats())
	return job.Stats()
}
