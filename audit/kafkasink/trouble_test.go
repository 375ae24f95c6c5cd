package kafkasink_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

// elsewhere is a listener that says another address than its own.
type elsewhere struct {
	net.Listener
	w *way.Way
}

func (l elsewhere) Addr() net.Addr { return addr(l.w.Addr()) }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// behind is a broker that is reached over a way that can be broken, by its metadata too.
func behind(t *testing.T) (*kfake.Cluster, *way.Way) {
	t.Helper()
	var w *way.Way
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
		if err != nil {
			return nil, err
		}
		if w, err = way.To(l.Addr().String()); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return elsewhere{l, w}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); c.Close() })
	return c, w
}

// Whatever is wrong with a broker or the way to it, nothing is lost, altered or buried: it
// waits on the disk until the trouble is over.
func TestNoTroubleOfABrokerLosesOrBuriesAnEvent(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.UnknownTopicOrPartition, kerr.UnknownServerError, kerr.KafkaStorageError, kerr.RequestTimedOut, kerr.CorruptMessage,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.InvalidTimestamp, kerr.PolicyViolation, kerr.ThrottlingQuotaExceeded, kerr.InvalidRequiredAcks,
	} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			c, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			outlives(t, c.ListenAddrs(), func() (over func()) {
				return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: -1}).Remove
			})
		})
	}
	for name, fault := range map[string]way.Fault{
		"replies lost": way.LoseReplies, "black hole": way.BlackHole, "replies reset": way.ResetReply, "refused": way.Refuse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, w := behind(t)
			outlives(t, c.ListenAddrs(), func() (over func()) {
				w.Become(fault)
				return w.Begins(way.None)
			})
		})
	}
	t.Run("restarted", func(t *testing.T) {
		t.Parallel()
		c, w := behind(t)
		outlives(t, c.ListenAddrs(), func() (over func()) {
			w.Cut()
			return func() {
				if err := w.Restore(); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

// outlives records before, in and after a trouble, and finds everything at its end.
func outlives(t *testing.T, brokers []string, trouble func() (over func())) {
	t.Helper()
	var failed atomic.Int64
	l := openTrail(t, kafkasink.Config{Brokers: brokers}, audit.Hooks{Sent: func(s audit.SendInfo) {
		if s.Failed > 0 {
			failed.Add(1)
		}
	}})
	l.record(t, 50)
	waitFor(t, "what was recorded before", func() bool { return l.Stats().Backlog() == 0 })
	failed.Store(0)
	over := trouble()
	waitFor(t, "three failures", func() bool { // an idle connection may not notice the first time
		l.record(t, 1)
		return failed.Load() >= 3
	})
	if st := l.Stats(); st.Backlog() == 0 {
		t.Errorf("in the trouble: %+v", st)
	}
	over()
	l.record(t, 50)
	l.arrived(t, brokers)
	if st := l.Stats(); st.Dead != 0 || st.Gaps != 0 {
		t.Errorf("%+v", st)
	}
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// names is a DNS server in this process that knows one name, or nothing. It is what every
// lookup of this test process ends at: see TestMain.
type names struct {
	knows atomic.Bool
	asked atomic.Int64
}

var dns names

// resolver asks n.
func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.answer(theirs)
		return packets{ours}, nil
	}}
}

// answer serves the questions that come over c.
func (n *names) answer(c net.Conn) {
	defer c.Close()
	q := make([]byte, 1500)
	for {
		size, err := c.Read(q)
		if err != nil || size < 12 {
			return
		}
		n.asked.Add(1)
		end := 12
		for end < size && q[end] != 0 {
			end += int(q[end]) + 1
		}
		end += 5 // the root, type and class
		r := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
		switch isA := q[end-3] == 1; {
		case !n.knows.Load():
			r[3] |= 2 // the server has failed
		case isA:
			r[7] = 1
			r = append(r, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
		}
		if _, err := c.Write(r); err != nil {
			return
		}
	}
}

// A broker whose name is not found, at the start and again later, is asked for again.
func TestNameOfTheBrokerThatIsLostLosesNothing(t *testing.T) {
	t.Parallel()
	c, w := behind(t)
	n := &dns
	_, port, err := net.SplitHostPort(w.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l := openTrail(t, kafkasink.Config{Brokers: []string{"kafka.tierlock.test.:" + port}}, audit.Hooks{})
	l.record(t, 100)
	waitFor(t, "questions without an answer", func() bool { return n.asked.Load() >= 4 })
	if st := l.Stats(); st.Delivered != 0 || st.Backlog() < 100 {
		t.Errorf("without a name: %+v", st)
	}
	n.knows.Store(true)
	waitFor(t, "what waited", func() bool { return l.Stats().Backlog() == 0 })

	n.knows.Store(false)
	w.Cut() // so that there is something to look up
	asked := n.asked.Load()
	l.record(t, 100)
	waitFor(t, "questions once more", func() bool { return n.asked.Load() >= asked+4 })
	if err := w.Restore(); err != nil {
		t.Fatal(err)
	}
	l.record(t, 100)
	if st := l.Stats(); st.Backlog() < 200 {
		t.Errorf("without a name once more: %+v", st)
	}
	n.knows.Store(true)
	l.arrived(t, c.ListenAddrs())
	if st := l.Stats(); st.Dead != 0 || st.Gaps != 0 {
		t.Errorf("%+v", st)
	}
}

// packets makes a pipe pass for UDP, so that messages have no length in front.
type packets struct{ net.Conn }

func (p packets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := p.Read(b)
	return n, p.RemoteAddr(), err
}
func (p packets) WriteTo(b []byte, _ net.Addr) (int, error) { return p.Write(b) }

// A producer that is told to end, while its broker takes connections and answers nothing,
// ends in the time that Close states, and what Kafka lacks waits on the disk.
func TestSIGTERMWithABrokerThatHangsKeepsTheBacklog(t *testing.T) {
	t.Parallel()
	c, w := behind(t)
	endsThough(t, c.ListenAddrs(), func() { w.Become(way.BlackHole) }, func() { w.Become(way.None) })
}

func TestRealKafkaThatIsFrozenHoldsNoSIGTERMUp(t *testing.T) {
	t.Parallel()
	broker := servers.Kafka(t)
	endsThough(t, []string{broker.Addr()}, broker.Freeze, broker.Thaw)
}

// endsThough tells a producer to end while the broker hangs.
func endsThough(t *testing.T, brokers []string, hang, back func()) {
	t.Helper()
	dir, acked := t.TempDir(), map[string]string{}
	term := func(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }
	endProducer(t, dir, brokers, acked, 300, term) // topics, and a first life
	hang()
	closed := endProducer(t, dir, brokers, acked, 500, term)
	back()
	// Then it ends what is on its way and frees the folder.
	const rest = time.Second
	var ms int64
	if _, err := fmt.Sscanf(closed, "closed in %d ms: ", &ms); err != nil || time.Duration(ms)*time.Millisecond > forwarding+rest {
		t.Errorf("%q, %v", closed, err)
	}
	f, err := audit.Inspect(nil, dir)
	if err != nil || f.Backlog() < 500 || !f.Sealed || f.InUse {
		t.Errorf("left behind: %+v, %v", f, err)
	}
	l, sink, err := openLog(dir, brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Errorf("drain: %v, %+v", err, l.Stats())
	}
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
	checkArrived(ctx, t, brokers, acked, 0)
}

// What is too large for the events, and not for the dead letters, is buried whole.
func TestLargeEventIsBuriedWhole(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	large := strings.Repeat("x", 1_020_000)
	buriesWhole(t, c.ListenAddrs(), large)
}

func buriesWhole(t *testing.T, brokers []string, large string) {
	t.Helper()
	l := openTrail(t, kafkasink.Config{Brokers: brokers}, audit.Hooks{})
	ev, err := grant(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	ev.Business = audit.Business{Type: "coupon", ID: large}
	if err := l.Record(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for _, records := range read(t, brokers, kafkasink.EventsTopic+".dlq", 1) {
		got, err := audit.Parse(records[0].Value)
		if err != nil || got.Business.ID != large {
			t.Errorf("%d bytes were buried, %v", len(records[0].Value), err)
		}
	}
	if st := l.Stats(); st.Dead != 1 || st.Gaps != 0 {
		t.Errorf("%+v", st)
	}
}

// Leaders move all the time: the events of a key stay in order, and each is there.
func TestLeadersThatMoveLoseNoOrder(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	_ = ready(t, c)
	over := make(chan struct{})
	moved := make(chan int)
	go func() {
		n := 0
		defer func() { moved <- n }()
		for {
			select {
			case <-over:
				return
			default:
			}
			if err := c.MoveTopicPartition(kafkasink.EventsTopic, int32(n%4), int32(n/4%3)); err != nil {
				t.Error(err)
			}
			n++
			pause(5 * time.Millisecond)
		}
	}()
	inOrder(t, c.ListenAddrs(), 4, 5_000, 200, func() {
		close(over)
		t.Logf("%d moves", <-moved)
	})
}

// inOrder records events of so many keys, drains, and reads the topic back: all are there,
// unaltered, and those of a key in the order in which they were recorded.
func inOrder(t *testing.T, brokers []string, partitions, events, keys int, calm func()) {
	t.Helper()
	sink := newSink(t, kafkasink.Config{Brokers: brokers, Partitions: partitions, Timeout: 5 * time.Second})
	l, err := audit.Open(audit.Config{Dir: t.TempDir(), Producer: "shop-1", Sink: sink, Heartbeat: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	acked := map[string]string{}
	for i := range events {
		ev, err := grant(i%keys, i)
		if err != nil {
			t.Fatal(err)
		}
		l.Note(&ev)
		acked[ev.ID.Fingerprint()] = said(&ev)
		if i%5000 == 4999 {
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Errorf("drain: %v, %+v", err, l.Stats())
	}
	calm()
	st := l.Stats()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
	if st.Dead != 0 || st.Gaps != 0 || st.Overflow != 0 {
		t.Errorf("%+v", st)
	}
	t.Logf("%d failed sends", st.SendErrors)
	checkArrived(ctx, t, brokers, acked, 0)
}
