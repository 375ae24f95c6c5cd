package servers

import (
	"sync"
	"testing"
)

// Share lets servers got by SharedKafka live until m's last test has run, instead of the
// last of those that use it at one time. For TestMain:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Share(m)) }
func Share(m Runner) Runner { return sharing{m} }

// Runner is what *testing.M is to Share and goleak.
type Runner interface{ Run() int }

type sharing struct{ m Runner }

func (s sharing) Run() int {
	shared.enter()
	defer shared.leave()
	return s.m.Run()
}

// shared is the one broker of this test process. What tests of one process share cannot
// be handed to them by anybody: hence a variable of the package.
var shared sharedKafka

// sharedKafka lives from the first user to the leave of the last.
type sharedKafka struct {
	mu     sync.Mutex
	users  int
	broker *lasting // nil while nobody has asked
}

// lasting is a broker under construction or up, and a testing.TB that outlives tests.
type lasting struct {
	testing.TB // of the test that asked first: reports its start
	once       sync.Once
	server     *KafkaServer // nil when the start has failed
	ends       []func()
}

// Cleanup keeps f for the end of the last user.
func (l *lasting) Cleanup(f func()) { l.ends = append(l.ends, f) }

// SharedKafka is [Kafka], but one for all tests of the process: use topics and groups of
// your own, and kill or freeze it only if no other test runs beside.
func SharedKafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	Need(tb, "Kafka")
	shared.enter()
	tb.Cleanup(shared.leave)
	shared.mu.Lock()
	if shared.broker == nil {
		shared.broker = &lasting{TB: tb}
	}
	l := shared.broker
	shared.mu.Unlock()
	l.once.Do(func() { l.server = Kafka(l) })
	if l.server == nil {
		tb.Fatal("the shared kafka could not start; the test that asked first tells why")
	}
	return &KafkaServer{Process: Process{tb, l.server.child}, addr: l.server.addr}
}

func (s *sharedKafka) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

func (s *sharedKafka) leave() {
	s.mu.Lock()
	s.users--
	var last *lasting
	if s.users == 0 {
		last, s.broker = s.broker, nil
	}
	s.mu.Unlock()
	if last == nil {
		return
	}
	for i := len(last.ends) - 1; i >= 0; i-- {
		last.ends[i]()
	}
}
