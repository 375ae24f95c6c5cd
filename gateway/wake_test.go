package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
	"github.com/tierlock/tierlock/internal/servers"
)

const (
	waiterAddr = "TIERLOCK_TEST_WAITER" // where its Redis is; makes this program one who waits
	turns      = 4                      // that each takes
	fleet      = 50                     // processes
)

// turnTaken is one line that a waiter writes. Times are of the machine's clock.
type turnTaken struct {
	Asked, From, To int64 // nanoseconds
	Token           uint64
	Err             string
}

// takeTurns says that it is ready, and on a word takes the lock again and again.
func takeTurns(addr string, in io.Reader, out io.Writer) int {
	store, err := redisstore.New(redisstore.Config{Addrs: []string{addr}, PoolSize: 2})
	if err != nil {
		return 1
	}
	defer func() { _ = store.Close() }()
	p := strong().Flow()
	p.Attempt, p.Ladder.Timeouts = 2*time.Second, 64 // it is about who wakes whom: a busy machine is no slow store
	g, err := gateway.New(gateway.Config{
		Chains: map[string]gateway.Policy{"order": p}, Stores: map[string]tierlock.Backend{"main": store}, Audit: new(gatewaytest.Audit),
	})
	if err != nil {
		return 1
	}
	defer func() { _ = g.Close(context.Background()) }()
	c, err := g.Chain("order")
	if err != nil {
		return 1
	}
	began := time.Now()
	for { // fifty that start at once on a busy machine: not each connects in time
		l, err := c.Lock(context.Background(), fmt.Sprint("warm", os.Getpid()))
		_ = l.Unlock(context.Background())
		if err == nil {
			break
		}
		if time.Since(began) > 30*time.Second {
			_, _ = fmt.Fprintln(os.Stderr, "waiter: not served:", err)
			return 1
		}
		pause(20 * time.Millisecond)
	}
	lines, enc := bufio.NewReader(in), json.NewEncoder(out)
	_ = enc.Encode(turnTaken{})
	for range turns {
		_, _ = lines.ReadString('\n')
		t := turnTaken{Asked: time.Now().UnixNano()}
		l, err := c.Lock(context.Background(), "hot", gateway.WithWait(2*time.Second))
		t.From = time.Now().UnixNano()
		if err != nil {
			t.Err = err.Error()
		} else {
			t.Token = uint64(l.Grant().Token)
			time.Sleep(500 * time.Microsecond)
		}
		t.To = time.Now().UnixNano()
		_ = l.Unlock(context.Background())
		_ = enc.Encode(t)
	}
	_, _ = lines.ReadString('\n') // its subscription stays until all are done
	return 0
}

// Fifty processes wait for one key: one at a time, every one served, with few commands.
func TestFiftyProcessesWaitForOneKey(t *testing.T) {
	server := servers.Redis(t)
	boss := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = boss.Close() }()
	var all []*waiter
	for range fleet {
		all = append(all, startWaiter(t, server.Addr()))
	}
	for _, w := range all {
		w.read(t) // it is ready
	}
	waitFor(t, "all inboxes are subscribed", func() bool {
		channels, err := boss.PubSubChannels(t.Context(), "tierlock:inbox:*").Result()
		return err == nil && len(channels) == fleet
	})
	if err := boss.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	var taken []turnTaken
	for range turns { // all at once, each time
		for _, w := range all {
			w.tell(t)
		}
		for _, w := range all {
			taken = append(taken, w.read(t))
		}
	}
	var calls int
	count := func(command string) (n int) {
		stats := boss.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_"+command)
		_, _ = fmt.Sscanf(stats, "calls=%d", &n)
		return n
	}
	for _, command := range []string{"evalsha", "eval", "subscribe"} {
		calls += count(command)
	}
	words := count("publish")
	for _, w := range all {
		w.tell(t)
	}
	slices.SortFunc(taken, func(a, b turnTaken) int { return int(a.From - b.From) })
	var gaps []time.Duration
	var patient int64 // questions of those who had waited for a fifth of a second, or three quarters of one
	for i, now := range taken {
		if now.Err != "" {
			t.Errorf("not served: %s", now.Err)
			continue
		}
		patient += (now.From - now.Asked) / int64(150*time.Millisecond)
		if i == 0 {
			continue
		}
		if before := taken[i-1]; now.From < before.To || now.Token <= before.Token {
			t.Errorf("%+v overlaps %+v", now, before)
		}
		if i%fleet != 0 { // not the first of a round, who met nobody
			gaps = append(gaps, time.Duration(now.From-taken[i-1].To))
		}
	}
	slices.Sort(gaps)
	// What a lock costs: a question, another one when it is handed over, the release, and its
	// part of the process's subscription, 3.25 in all. Whoever is overtaken asks once more; a
	// command more for every lock is not allowed.
	n := float64(len(taken))
	per, most := float64(calls+fleet)/n, 4+float64(patient)/n
	t.Logf("hand-over p50 %v, p99 %v; %.2f commands a lock, its release counted, %.2f allowed", gaps[len(gaps)/2], gaps[len(gaps)*99/100], per, most)
	if per > most {
		t.Errorf("%.2f commands a lock, want %.2f", per, most)
	}
	// Two questions of each lock tell nobody, but for the first of a round, who asks once; any
	// other command tells one at most.
	t.Logf("%d words for %d locks", words, len(taken))
	if words > calls-2*len(taken)+turns || words < fleet {
		t.Errorf("%d words that woke somebody for %d locks and %d commands", words, len(taken), calls)
	}
}

// waiter is a process that takes turns, as its test sees it.
type waiter struct {
	in  io.Writer
	out *bufio.Scanner
}

func startWaiter(t *testing.T, addr string) *waiter {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), waiterAddr+"="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &waiter{in, bufio.NewScanner(out)}
}

func (w *waiter) tell(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(w.in); err != nil {
		t.Fatal(err)
	}
}

func (w *waiter) read(t *testing.T) (one turnTaken) {
	t.Helper()
	if !w.out.Scan() {
		t.Fatal("a waiter has ended")
	}
	if err := json.Unmarshal(w.out.Bytes(), &one); err != nil {
		t.Fatal(err)
	}
	return one
}
