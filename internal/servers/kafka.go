package servers

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// KafkaServer is one real broker that is its own controller.
type KafkaServer struct {
	Process
	addr   string
	joined int // brokers beside it
}

// Addr is the bootstrap address, "127.0.0.1:port", the same after Restart.
func (s *KafkaServer) Addr() string { return s.addr }

// kafkaProperties takes the client's port, the controller's and the folder. Topics are
// created explicitly, as in production. One partition of offsets instead of 50 saves a
// second at the first group.
const kafkaProperties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
replica.lag.time.max.ms=2000
num.partitions=4
`

// Kafka starts a broker with an empty log. That costs 3 to 4 s and 300 MB: see
// [SharedKafka]. It is ready when it answers who coordinates a group.
func Kafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	Need(tb, "Kafka")
	return startKafka(tb, nil)
}

// startKafka starts a broker; more, if any, tells what to add to its properties, where the
// last word counts, and what its folder is formatted with. Port and the two above are its.
func startKafka(tb testing.TB, more func(dir string, port int) (properties string, format []string, err error)) *KafkaServer {
	tb.Helper()
	jars := cache(tb, "kafka-"+kafkaVersion, "lib")
	if !exists(jars) {
		tb.Fatalf("no Kafka in %s: make servers installs it", jars)
	}
	port, release := freePorts(tb, 1, 2)
	dir := newFolder(tb, "kafka", nil)
	properties, logs := filepath.Join(dir.path, "server.properties"), filepath.Join(dir.path, "log")
	text := fmt.Appendf(nil, kafkaProperties, port, port+1, logs)
	var format []string
	formatted := cache(tb, "kafka-"+kafkaVersion, "formatted")
	if more != nil {
		extra, args, err := more(dir.path, port)
		if err != nil {
			tb.Fatalf("kafka: %v", err)
		}
		text, format, formatted = append(text, extra...), args, ""
	}
	if err := os.WriteFile(properties, text, 0o644); err != nil {
		tb.Fatalf("kafka: %v", err)
	}
	java := []string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // a test's broker starts often and lives short
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(jars, "*"),
	}
	if err := formatKafka(look(tb, "java"), java, properties, logs, formatted, format...); err != nil {
		dir.remove()
		release()
		tb.Fatalf("kafka: %v", err)
	}
	return &KafkaServer{addr: loopback(port), Process: launch(tb, command{
		name:  "kafka",
		path:  look(tb, "java"),
		args:  append(java, "kafka.Kafka", properties),
		ready: func(int) (string, error) { return kafkaVersion, findCoordinator(loopback(port)) },
	}, dir, release)}
}

// formatKafka makes logs a fresh node's folder: a copy of one that was formatted before,
// since the tool takes as long as the broker's own start. Formatted "" is one of its own.
func formatKafka(javaPath string, java []string, properties, logs, formatted string, more ...string) error {
	if formatted != "" && exists(formatted) {
		return os.CopyFS(logs, os.DirFS(formatted))
	}
	const id = "dGllcmxvY2stdGllcmxvYw" // any 16 bytes; clusters that never meet may share it
	args := append(java[:len(java):len(java)], "kafka.tools.StorageTool", "format", "-t", id, "-c", properties)
	args = append(args, more...)
	if out, err := exec.Command(javaPath, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("format: %w: %s", err, out)
	}
	if formatted == "" {
		return nil
	}
	return keep(logs, formatted)
}

// findCoordinator asks who coordinates a group. An open port is not a ready broker: the
// answer comes before the topic of offsets is there, with an error in it.
func findCoordinator(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))

	text := func(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }
	request := slices.Concat(
		[]byte{0, 10, 0, 0, 0, 0, 0, 1}, // FindCoordinator, version 0, correlation 1
		text("tierlock"), text("ready?"),
	)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return err
	}
	head := make([]byte, 10) // size, correlation, error
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	if code := binary.BigEndian.Uint16(head[8:]); code != 0 {
		return fmt.Errorf("FindCoordinator: error %d", code)
	}
	return nil
}
