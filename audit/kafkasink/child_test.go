package kafkasink_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/audit/kafkasink"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/internal/servers"
)

// childEnv makes the test binary a producer: it records bypass grants until it is killed
// and prints the fingerprint of each that was acknowledged, and what it said. Its value is the spool's
// folder and the brokers.
const childEnv = "TIERLOCK_SINK_CHILD"

func childMain() bool {
	dir, brokers, ok := strings.Cut(os.Getenv(childEnv), "|")
	if !ok {
		return false
	}
	l, _, err := openLog(dir, strings.Split(brokers, ","))
	if err != nil {
		fmt.Println("error:", err)
		return true
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	var mu sync.Mutex
	for g := range 8 {
		go func() {
			for i := 0; ; i++ {
				ev, err := grant(g, i)
				if err == nil {
					err = l.Record(context.Background(), &ev)
				}
				if errors.Is(err, audit.ErrClosed) {
					return
				}
				if err != nil {
					continue
				}
				mu.Lock()
				fmt.Println(ev.ID.Fingerprint(), said(&ev))
				mu.Unlock()
				end := audit.Ended(tierlock.Grant{Chain: ev.Chain, Key: ev.Key, RequestID: ev.ID, Tier: ev.Tier, AcquiredAt: ev.GrantedAt}, audit.Released, audit.Committed, time.Now())
				l.Note(&end)
				time.Sleep(200 * time.Microsecond) // work
			}
		}()
	}
	<-told
	took, err := unstalled(forwarding, func() error { return l.Close(context.Background()) })
	mu.Lock()
	defer mu.Unlock()
	fmt.Printf("closed in %d ms: %v\n", took.Milliseconds(), err)
	return true
}

// forwarding is for how long Close sends at most, as it states.
const forwarding = 5 * time.Second

// unstalled is how long do took, less the time beyond after for which this process did not
// get to run: before, a timer that do waits for runs on all the same.
func unstalled(after time.Duration, do func() error) (time.Duration, error) {
	const beat = 5 * time.Millisecond
	begin := time.Now()
	over, stalled := make(chan struct{}), make(chan time.Duration)
	go func() {
		tick := time.NewTicker(beat)
		defer tick.Stop()
		var sum time.Duration
		for last := begin.Add(after); ; {
			select {
			case <-tick.C:
				now := time.Now()
				sum += max(0, now.Sub(last)-2*beat)
				if now.After(last) {
					last = now
				}
			case <-over:
				stalled <- sum
				return
			}
		}
	}()
	err := do()
	took := time.Since(begin)
	close(over)
	return took - <-stalled, err
}

// said is all of an acquire that must arrive as it was recorded, as words of a line. Times
// are written in microseconds.
func said(ev *audit.Event) string {
	return fmt.Sprint(ev.Chain, " ", ev.Key, " ", ev.GrantedAt.UnixMicro(), " ", ev.Tier, " ", ev.Store, " ", ev.TTL)
}

func openLog(dir string, brokers []string) (*audit.Log, *kafkasink.Sink, error) {
	sink, err := kafkasink.New(kafkasink.Config{Brokers: brokers, Partitions: 4, Timeout: 2 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	l, err := audit.Open(audit.Config{Dir: dir, Producer: "shop-1", Sink: sink, Heartbeat: 100 * time.Millisecond})
	return l, sink, err
}

func grant(g, i int) (audit.Event, error) {
	key, err := tierlock.ParseKey(fmt.Sprintf("biz:coupon:lock:%d", g))
	return audit.Acquired(tierlock.Grant{
		Chain: "coupon", Key: key, RequestID: tierlock.NewRequestID(), Tier: tierlock.Bypass, Store: "bypass", AcquiredAt: time.Now(),
	}, 15*time.Second, 0), err
}

func TestEveryAcknowledgedEventArrivesThoughTheProducerIsKilled(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	arrivesThough(t, c.ListenAddrs(), 3, func(int) {})
}

func TestRealKafkaGetsEveryAcknowledgedEventThoughProducerAndBrokerAreKilled(t *testing.T) {
	t.Parallel()
	broker := servers.Kafka(t)
	arrivesThough(t, []string{broker.Addr()}, 4, func(round int) {
		if round == 1 { // the producer of this round lives while the broker is away
			broker.Kill()
		}
		if round == 2 {
			broker.Restart()
		}
	})
}

// arrivesThough kills the producer in every round, lets the last Open send what is left,
// and then reads the topic: every acknowledged grant is there, each key's in order, and
// the chain has no break and no missing seq.
func arrivesThough(t *testing.T, brokers []string, rounds int, before func(round int)) {
	t.Helper()
	dir := t.TempDir()
	acked := map[string]string{}
	for round := range rounds {
		before(round)
		killProducer(t, dir, brokers, acked, 500)
	}
	l, sink, err := openLog(dir, brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Errorf("drain: %v, %+v", err, l.Stats())
	}
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
	checkArrived(ctx, t, brokers, acked, rounds)
}

func killProducer(t *testing.T, dir string, brokers []string, acked map[string]string, after int) {
	t.Helper()
	endProducer(t, dir, brokers, acked, after, func(p *os.Process) { _ = p.Kill() })
}

// endProducer lets a producer record so many grants and then calls end, once. closed is
// what it said of its Close, if it came to that.
func endProducer(t *testing.T, dir string, brokers []string, acked map[string]string, after int, end func(*os.Process)) (closed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir+"|"+strings.Join(brokers, ","))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was cut was not told
			break
		}
		if strings.HasPrefix(line, "closed") {
			closed = strings.TrimSpace(line)
			t.Log(closed)
			continue
		}
		if strings.HasPrefix(line, "error") {
			t.Errorf("the producer says %s", line)
		}
		holder, all, _ := strings.Cut(strings.TrimSpace(line), " ")
		acked[holder] = all
		if n == after {
			end(cmd.Process)
		}
	}
	_ = cmd.Wait() // killed, or ended as it was told
	return closed
}

// checkArrived finds each acknowledged event once, by the id of its grant, and as it was
// recorded; what acked says of one may be empty: then it must only be there.
func checkArrived(ctx context.Context, t *testing.T, brokers []string, acked map[string]string, rounds int) {
	t.Helper()
	var chain audit.Chain
	latest := map[tierlock.Key]audit.Event{}
	messages, found := 0, make(map[string]bool, len(acked))
	err := memkafka.ReadAll(ctx, brokers, kafkasink.EventsTopic, func(p int, key, value []byte) error {
		messages++
		ev, err := audit.Parse(value)
		if err != nil {
			return err
		}
		if !chain.Add(p, &ev) || ev.Type != audit.TypeAcquire {
			return nil
		}
		if last := latest[ev.Key]; ev.Seq < last.Seq || ev.GrantedAt.Before(last.GrantedAt) {
			t.Errorf("%s: %s after %s", key, ev.EventID(), last.EventID())
		}
		latest[ev.Key] = ev
		if want, ok := acked[ev.Holder]; ok {
			if found[ev.Holder] {
				t.Errorf("%s is there under two ids, the second is %s", ev.Holder, ev.EventID())
			}
			if got := said(&ev); want != "" && got != want {
				t.Errorf("%s says %q, recorded was %q", ev.EventID(), got, want)
			}
			found[ev.Holder] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := chain.Accounts()
	if len(all) != 1 {
		t.Fatalf("%d producers", len(all))
	}
	missing := len(acked) - len(found)
	if acc := all[0]; missing != 0 || len(acc.Breaks)+len(acc.Missing)+len(acc.Unsealed)+acc.Lost != 0 || acc.Crashed != rounds {
		t.Errorf("%d of %d acknowledged events are missing; %+v", missing, len(acked), acc)
	}
	t.Logf("%d acknowledged, %d messages", len(acked), messages)
}
