package servers_test

import (
	"context"
	"database/sql"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/segmentio/kafka-go"

	"github.com/tierlock/tierlock/internal/servers"
)

func TestKafkaKeepsItsTopicsOverARestart(t *testing.T) {
	k := servers.SharedKafka(t)
	if again := servers.SharedKafka(t); again.PID() != k.PID() {
		t.Fatalf("two brokers, pids %d and %d", k.PID(), again.PID())
	}
	conn, err := kafka.Dial("tcp", k.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.CreateTopics(kafka.TopicConfig{Topic: "kept", NumPartitions: 3, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	k.Restart()
	if conn, err = kafka.Dial("tcp", k.Addr()); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if parts, err := conn.ReadPartitions("kept"); err != nil || len(parts) != 3 {
		t.Errorf("partitions %v, %v", parts, err)
	}
}

func TestNacosGivesWhatWasPut(t *testing.T) {
	n := servers.Nacos(t)
	get := func() int {
		t.Helper()
		resp, err := http.Get("http://" + n.Addr() + "/nacos/v1/cs/configs?dataId=d&group=g")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		return resp.StatusCode
	}
	n.Put("d", "g", "content")
	if code := get(); code != http.StatusOK {
		t.Errorf("after put: %d", code)
	}
	n.Restart()
	if code := get(); code != http.StatusOK {
		t.Errorf("after restart: %d", code)
	}
	n.Delete("d", "g")
	if code := get(); code != http.StatusNotFound {
		t.Errorf("after delete: %d", code)
	}
}

func TestPostgresKeepsItsRowsOverACrash(t *testing.T) {
	p := servers.Postgres(t)
	exec := func(query string) {
		t.Helper()
		db, err := sql.Open("pgx", p.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(context.Background(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE kept (id int)")
	p.Kill()
	p.Restart()
	exec("INSERT INTO kept VALUES (1)")
}

func TestMariaDBKeepsItsRowsOverACrash(t *testing.T) {
	m := servers.MariaDB(t)
	host, port, err := net.SplitHostPort(m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	run := func(query string) string {
		t.Helper()
		out, err := exec.Command("mariadb", "--no-defaults", "-h", host, "-P", port, "-N", "-e", query, "test").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", query, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("CREATE TABLE kept (id int)")
	run("INSERT INTO kept VALUES (1)")
	m.Kill()
	m.Restart()
	if n := run("SELECT count(*) FROM kept"); n != "1" {
		t.Errorf("%s rows are left of 1", n)
	}
}
