package servers

import (
	"fmt"
	"net"
	"strconv"
	"testing"
)

// joinProperties takes the port, that of the first broker's controller, and the new id.
const joinProperties = `process.roles=broker
node.id=%[3]d
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
`

// Join starts another broker in the cluster of s, whose own id is 1: the first to join has
// id 2, the next one 3. It belongs to one goroutine.
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
	s.joined++
	return startKafka(tb, func(_ string, port int) (string, []string, error) {
		return fmt.Sprintf(joinProperties, port, first+1, 1+s.joined), nil, nil
	})
}
