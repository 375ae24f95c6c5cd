package servers

import (
	"fmt"
	"net"
	"strconv"
	"testing"
)

// joinProperties takes the port and that of the first broker's controller.
const joinProperties = `process.roles=broker
node.id=2
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
`

// Join starts a second broker, with id 2, in the cluster of s, whose own is 1.
func (s *KafkaServer) Join(tb testing.TB) *KafkaServer {
	tb.Helper()
	_, text, err := net.SplitHostPort(s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	first, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return startKafka(tb, func(_ string, port int) (string, []string, error) {
		return fmt.Sprintf(joinProperties, port, first+1), nil, nil
	})
}
