package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/internal/demo/memkafka"
	"github.com/tierlock/tierlock/internal/demo/memredis"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
)

// asBinary makes this test binary be the command: a real process that can be killed.
const asBinary = "TIERLOCK_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// tierlockCommand is the command as a child process.
func tierlockCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asBinary+"=1")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestExitCodesOfTheBinary(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":         {nil, 2, "tierlock demo"},
		"unknown command": {[]string{"nosuch"}, 2, `no command "nosuch"`},
		"help":            {[]string{"help"}, 0, "tierlock serve -c FILE"},
		"version":         {[]string{"version"}, 0, "tierlock "},
		"serve no file":   {[]string{"serve"}, 2, "want -c FILE"},
		"help of one":     {[]string{"help", "health"}, 0, "usage: tierlock health"},
		"help of demo":    {[]string{"help", "demo"}, 0, "usage: tierlock demo"},
		"help of none":    {[]string{"help", "nosuch"}, 2, `no command "nosuch"`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := tierlockCommand(t, c.args...)
			cmd.Stderr = nil
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.says) {
				t.Errorf("code %d, %v\n%s", code, err, out)
			}
		})
	}
}

// world is what a daemon needs.
type world struct {
	dir, file, orders string
	brokers           []string
}

// newWorld is one inside this process.
func newWorld(t *testing.T) world {
	t.Helper()
	kafka, err := memkafka.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	return newWorldWith(t, kafka.Addrs())
}

func newWorldWith(t *testing.T, brokers []string) world {
	t.Helper()
	redis, err := memredis.Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	w := world{dir: t.TempDir(), brokers: brokers}
	w.file, w.orders = filepath.Join(w.dir, "tierlock.yaml"), filepath.Join(w.dir, "switch.yaml")
	text := fmt.Sprintf(`
instance: "1"
stores: {main: {kind: redis, addrs: [%q]}}
switch: {file: %q}
audit: {dir: %q, kafka: {brokers: [%q], partitions: 3}}
listen: {data: "127.0.0.1:0", admin: "127.0.0.1:0"}
log: {level: error}
chains: {coupon: {class: weak, protects: "one claim at a time", on_lost: reconcile}}
`, redis.Addr(), w.orders, filepath.Join(w.dir, "spool"), brokers[0])
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// serve starts a daemon process and returns where it answers.
func (w world) serve(t *testing.T) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = tierlockCommand(t, "serve", "-c", w.file, "--output", "json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("it says nothing: %v", err)
	}
	var says struct{ Data string }
	if err := json.Unmarshal(line, &says); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return cmd, "http://" + says.Data
}

// terminate ends a daemon as an operator does.
func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}

// try takes a lock and returns the answer's tier, "" without one.
func try(url string, id tierlock.RequestID) (tier string) {
	tier, _ = ask(url, id)
	return tier
}

// ask is try, and tells whether anybody answered.
func ask(url string, id tierlock.RequestID) (tier string, err error) {
	resp, err := client.Post(url+"/v1/try", "", strings.NewReader(`{"key":"biz:coupon:lock:u1","request_id":"`+id.Secret()+`"}`))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var body struct{ Outcome, Tier string }
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, &body) != nil || body.Outcome != "success" {
		return "", err
	}
	return body.Tier, nil
}

func TestSIGTERMEndsAServingDaemonWithZero(t *testing.T) {
	w := newWorld(t)
	cmd, url := w.serve(t)
	for id, end := tierlock.NewRequestID(), time.Now().Add(10*time.Second); ; { // a busy machine may need more than an attempt
		tier := try(url, id)
		if tier == "shared" {
			break
		}
		if tier != "" || time.Now().After(end) {
			t.Fatalf("tier %q", tier)
		}
	}
	terminate(t, cmd)
}

// TestKillNineInBypassLosesNoGrant: every bypass grant that a client was told of has its
// event in Kafka, though the process was killed in the middle of granting.
func TestKillNineInBypassLosesNoGrant(t *testing.T) { newWorld(t).losesNoGrant(t) }

func TestKillNineInBypassLosesNoGrantOnARealKafka(t *testing.T) {
	newWorldWith(t, []string{servers.Kafka(t).Addr()}).losesNoGrant(t)
}

// losesNoGrant kills a daemon while it grants and starts it anew.
func (w world) losesNoGrant(t *testing.T) {
	t.Helper()
	cmd, url := w.serveBypass(t)
	told := w.killWhileGranting(t, cmd, url)
	again, _ := w.serve(t)
	w.awaitSent(t)
	terminate(t, again)
	w.checkRecorded(t, told)
}

// awaitSent waits until the daemon that runs has sent all that its folder has.
func (w world) awaitSent(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var says struct {
			Spools []struct{ Backlog uint64 }
		}
		text := cli(t, "spool", "ls", "--output", "json", filepath.Join(w.dir, "spool"))
		if err := json.Unmarshal([]byte(text), &says); err != nil || len(says.Spools) != 1 {
			t.Fatalf("%v, %s", err, text)
		}
		if says.Spools[0].Backlog < 20 { // it adds heartbeats all the time
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not sent within a minute: %s", text)
		}
	}
}

// serveBypass starts a daemon that grants without asking the store.
func (w world) serveBypass(t *testing.T) (cmd *exec.Cmd, url string) {
	t.Helper()
	doc := switchcfg.Document{Version: 1, Chains: map[string]switchcfg.Directive{
		"coupon": {Mode: tierlock.ModeBypass, Until: time.Now().Add(time.Hour), Reason: "test", By: "test"},
	}}
	if err := switchcfg.WriteFile(w.orders, doc); err != nil {
		t.Fatal(err)
	}
	cmd, url = w.serve(t)
	for deadline := time.Now().Add(10 * time.Second); try(url, tierlock.NewRequestID()) != "bypass"; {
		if time.Now().After(deadline) {
			t.Fatal("the order did not come into force")
		}
	}
	return cmd, url
}

// checkRecorded looks in Kafka for the event of each grant.
func (w world) checkRecorded(t *testing.T, told []tierlock.RequestID) {
	t.Helper()
	seen := map[string]bool{}
	err := memkafka.ReadAll(t.Context(), w.brokers, "tierlock.events.v1", func(_ int, _, value []byte) error {
		ev, err := audit.Parse(value)
		if ev.Type == audit.TypeAcquire {
			seen[ev.Holder] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for _, id := range told {
		if !seen[id.Fingerprint()] {
			missing++
		}
	}
	if missing > 0 || len(told) < 100 {
		t.Errorf("%d of %d grants have no event (%d events)", missing, len(told), len(seen))
	}
}

// killWhileGranting asks from many clients at once, kills the daemon after 200 answers
// and returns the grants that clients were told of.
func (w world) killWhileGranting(t *testing.T, cmd *exec.Cmd, url string) []tierlock.RequestID {
	t.Helper()
	var (
		mu      sync.Mutex
		told    []tierlock.RequestID
		clients sync.WaitGroup
		kill    sync.Once
	)
	for range 16 {
		clients.Go(func() {
			for {
				id := tierlock.NewRequestID()
				tier, err := ask(url, id)
				if err != nil {
					return // it is dead
				}
				if tier != "bypass" {
					continue // a disk that is busy for too long is an answer too
				}
				mu.Lock()
				told = append(told, id)
				enough := len(told) >= 200
				mu.Unlock()
				if enough {
					kill.Do(func() { _ = cmd.Process.Kill() })
				}
			}
		})
	}
	clients.Wait()
	_ = cmd.Wait()
	return told
}
