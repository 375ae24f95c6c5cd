package kafkasource

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	_ "modernc.org/sqlite"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/reconcile"
)

const businessTopic = "orders.v1"

// messages are what lies in the business topic, as text without their offsets and times.
func messages(tb testing.TB, broker string) (all []string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(broker), Transport: pool}
	res, err := client.Fetch(ctx, &kafka.FetchRequest{Topic: businessTopic, Offset: 0, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		tb.Fatal(err)
	}
	for {
		r, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			tb.Fatal(err)
		}
		key, _ := io.ReadAll(r.Key)
		value, _ := io.ReadAll(r.Value)
		all = append(all, fmt.Sprintf("%s %s %s", key, value, r.Headers))
	}
}

func createTopic(tb testing.TB, broker, name string) {
	tb.Helper()
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(broker), Transport: pool, Timeout: 30 * time.Second}
	res, err := client.CreateTopics(tb.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}})
	if err == nil {
		err = res.Errors[name]
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// TestAMessageIsTheSameAfterAKill: the process that repairs is killed when Kafka has the
// message and its own note of that is not written. The next life sends the same message,
// byte for byte, and one after that sends none.
func TestAMessageIsTheSameAfterAKill(t *testing.T) {
	broker := servers.Kafka(t).Addr()
	createTopic(t, broker, businessTopic)
	path := filepath.Join(t.TempDir(), "shop.db")
	db := shop(t, path)
	for _, statement := range append(reconcile.Schema(reconcile.SQLite),
		`CREATE TABLE orders (id TEXT PRIMARY KEY, paid INTEGER NOT NULL, body TEXT NOT NULL)`, `INSERT INTO orders VALUES ('o1', 2, 'refund one')`) {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	life := func(killed bool) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPublishingChild$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("PUBLISHING_CHILD=%s %s %t", broker, path, killed))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if killed && lines.Text() == "in kafka" {
				_ = cmd.Process.Kill()
			}
		}
		if err := cmd.Wait(); (err != nil) != killed {
			t.Fatalf("%v\n%s", err, &text)
		}
		return text.String()
	}
	life(true)
	if _, err := db.ExecContext(t.Context(), `UPDATE orders SET body = 'refund another'`); err != nil {
		t.Fatal(err)
	}
	if text := life(false); !strings.Contains(text, "result applied") {
		t.Errorf("second life: %s", text)
	}
	if text := life(false); !strings.Contains(text, "result already") {
		t.Errorf("third life: %s", text)
	}
	got := messages(t, broker)
	if len(got) != 2 || got[0] != got[1] || !strings.HasPrefix(got[0], "o1 refund one ") || !strings.Contains(got[0], "Idempotency-Key") || !strings.Contains(got[0], "the-repair") {
		t.Errorf("messages %v; want two that are the same", got)
	}
}

func shop(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

// slowly tells that a message is in Kafka, and gives its killer the time it needs.
type slowly struct{ *Publisher }

func (p slowly) Publish(ctx context.Context, m reconcile.Message) error {
	err := p.Publisher.Publish(ctx, m)
	if err == nil {
		fmt.Fprintln(os.Stdout, "in kafka")
		<-ctx.Done()
	}
	return err
}

// TestPublishingChild is the process that is killed; by itself it is nothing.
func TestPublishingChild(t *testing.T) {
	task, wanted := os.LookupEnv("PUBLISHING_CHILD")
	if !wanted {
		return
	}
	words := strings.Fields(task)
	db := shop(t, words[1])
	publisher, err := NewPublisher(Config{Brokers: words[:1]}, businessTopic)
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	cfg := reconcile.PublishHookConfig{
		Publisher: publisher, DB: db, Dialect: reconcile.SQLite, Message: `SELECT body FROM orders WHERE id = {id}`,
		Check: reconcile.CheckFunc(func(context.Context, reconcile.Case) (int64, error) { return 1, nil }),
	}
	if words[2] == "true" {
		cfg.Publisher = slowly{publisher}
	}
	hook, err := reconcile.NewPublishHook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	result, err := hook.Repair.Repair(t.Context(), reconcile.Case{ID: "the-repair", Action: "refund", Business: audit.Business{Type: "order", ID: "o1"}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stdout, "result", result)
}

func TestPublisherFaults(t *testing.T) {
	if _, err := NewPublisher(Config{Brokers: []string{"host"}}, "t"); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("broker without a port: %v", err)
	}
	if _, err := NewPublisher(Config{Brokers: []string{"host:1"}}, ""); len(tierlock.Invalids(err)) != 1 || tierlock.Invalids(err)[0].Field != "topic" {
		t.Errorf("no topic: %v", err)
	}
}

// A topic that does not exist is an error and is not made: it would get the wrong partitions.
func TestAMessageForNoTopicIsAnError(t *testing.T) {
	brokers := broker(t, 1)
	p, err := NewPublisher(Config{Brokers: brokers, Timeout: 5 * time.Second}, "nobody-made-it")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Publish(t.Context(), reconcile.Message{Key: "k", Value: []byte("v")}); err == nil || !strings.Contains(err.Error(), "nobody-made-it") {
		t.Errorf("%v", err)
	}
	pool := &kafka.Transport{}
	defer pool.CloseIdleConnections()
	meta, err := (&kafka.Client{Addr: kafka.TCP(brokers...), Transport: pool}).Metadata(t.Context(), &kafka.MetadataRequest{})
	if err != nil || slices.ContainsFunc(meta.Topics, func(tp kafka.Topic) bool { return tp.Name == "nobody-made-it" }) {
		t.Errorf("topics %v, %v", meta, err)
	}
}
