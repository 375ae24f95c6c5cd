package nacossource

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacostest"
)

// listening waits until so many clients of the server are told of changes.
func listening(t *testing.T, n *nacostest.Server, clients int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); n.Listening(DefaultDataID, DefaultGroup) < clients; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d clients listen", n.Listening(DefaultDataID, DefaultGroup), clients)
		}
	}
}

// TestBadDays leads one client through what a server does on a bad day. One, since the SDK
// allows all clients of a process together 5 questions a second about one configuration.
func TestBadDays(t *testing.T) { //nolint:tparallel // its parts are one day, in their order
	t.Parallel()
	if !apart(t) {
		badDays(t)
	}
}

func badDays(t *testing.T) {
	t.Helper()
	n := nacostest.Start(t)
	put(n, 1)
	s := open(t, n.Addr())
	s.remake = time.Second
	f := followEvery(t, s, time.Second)
	f.inForce(1, 6*time.Second)
	listening(t, n, 1)
	version := uint64(1)
	flip := func() time.Duration { version++; put(n, int(version)); return f.inForce(version, 20*time.Second) }
	flip() // maybe lost in the SDK, which is just beginning to listen

	t.Run("a lost push costs one poll", func(t *testing.T) { // that this is within 6 s is shown in a bubble, in package switchcfg
		for range 4 {
			<-time.After(2 * fetchGap) // nothing was asked just before
			t.Logf("told: in force after %v", flip().Round(time.Millisecond))
		}
		n.LosePushes(true)
		defer n.LosePushes(false)
		t.Logf("not told: in force after %v", flip().Round(time.Millisecond))
	})
	t.Run("bad documents change nothing", func(t *testing.T) { badDocuments(t, n, f, version) })
	flip()
	t.Run("answers out of order end with the newest", func(t *testing.T) {
		flip()
		n.AnswerOld(1)
		f.until("an alarm over an old answer", 6*time.Second, func(v uint64, why switchcfg.Why) bool { return v == version && why == switchcfg.WhyOlder })
		f.inForce(version, 6*time.Second)
		version = flipFlop(t, n, f, version)
	})
	t.Run("who is refused asks seldom and follows again", func(t *testing.T) { // the SDK's listener would ask thousands of times a second
		n.Refuse(true)
		was := version
		version++
		put(n, int(version))
		f.until("an alarm over 403", 10*time.Second, func(v uint64, why switchcfg.Why) bool { return v == was && why == switchcfg.WhyUnanswered })
		asked := func() int {
			before := n.Queries() + n.Listens()
			<-time.After(2 * time.Second)
			return n.Queries() + n.Listens() - before
		}
		for end := time.Now().Add(20 * time.Second); ; { // a busy machine may see the alarm before the client is dropped
			if n := asked(); n <= 50 {
				break
			} else if time.Now().After(end) {
				t.Errorf("%d questions in 2 s, and no end", n)
				break
			}
		}
		n.Refuse(false)
		t.Logf("in force %v after the right was given back", f.inForce(version, 20*time.Second).Round(time.Millisecond))
	})
}

// TestBadDaysOfARealServer is what of them rnacos can be made to have.
func TestBadDaysOfARealServer(t *testing.T) {
	t.Parallel()
	if apart(t) {
		return
	}
	n := servers.Nacos(t)
	put(n, 2)
	f := followEvery(t, open(t, n.Addr()), time.Second)
	f.inForce(2, 6*time.Second)
	badDocuments(t, n, f, 2)
	put(n, 3)
	f.inForce(3, 6*time.Second)
	flipFlop(t, n, f, 3)
}

// flipFlop publishes 20 versions as fast as it can, one on and one off; the last is in force.
func flipFlop(t *testing.T, n server, f *following, version uint64) uint64 {
	t.Helper()
	for range 10 {
		n.Put(DefaultDataID, DefaultGroup, fmt.Sprintf("version: %d\nchains: {}", version+1))
		version += 2
		put(n, int(version))
	}
	f.inForce(version, 6*time.Second)
	return version
}

// badDocuments publishes what nobody may follow over a version in force; each is an alarm of its
// own kind.
func badDocuments(t *testing.T, n server, f *following, inForce uint64) {
	t.Helper()
	for _, c := range []struct {
		text string
		want switchcfg.Why
	}{
		{"version: [", switchcfg.WhyUnreadable},
		{"{}", switchcfg.WhyInvalid},
		{"version: 99\nchains: {coupon: {mode: bypass, until: 2026-", switchcfg.WhyUnreadable}, // cut off
		{"version: 99\nchains: {coupon: {mode: bypass}}", switchcfg.WhyInvalid},
		{"version: 99\nchains: {}\nextra: 1", switchcfg.WhyUnreadable},
		{strings.Repeat("# far too long\n", 1<<17), switchcfg.WhyUnreadable},
		{"version: 1\nchains: {}", switchcfg.WhyOlder},
		{fmt.Sprintf("version: %d\nchains: {}", inForce), switchcfg.WhyConflict},
		{"version: 99\nchains: {coupon: {mode: bypass, until: 2001-01-01T00:00:00Z, reason: r, by: b}}", switchcfg.WhyExpired},
	} {
		n.Put(DefaultDataID, DefaultGroup, c.text)
		f.until(fmt.Sprintf("the alarm %s over %.40q", c.want, c.text), 6*time.Second, func(v uint64, why switchcfg.Why) bool { return v == inForce && why == c.want })
	}
}

// TestARevokedLoginIsMadeAgainAndTellsNoSecret: the log at its most talkative holds neither
// password, token nor document.
func TestARevokedLoginIsMadeAgainAndTellsNoSecret(t *testing.T) {
	t.Parallel()
	if apart(t) {
		return
	}
	n := nacostest.Start(t)
	n.Account("shop", "hunter2")
	put(n, 1)
	out := new(talk)
	s, err := New(Config{Addr: n.Addr(), Username: "shop", Password: "hunter2", CacheDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	s.remake = time.Second
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	f := followEvery(t, s, time.Second)
	defer f.end()
	f.inForce(1, 6*time.Second)
	listening(t, n, 1)
	n.Revoke()
	put(n, 2)
	t.Logf("in force %v after the login was revoked", f.inForce(2, 20*time.Second).Round(time.Millisecond))
	if n.Logins() < 2 {
		t.Errorf("%d logins", n.Logins())
	}
	said := out.String()
	if !strings.Contains(said, "nacos client says") {
		t.Error("the SDK says nothing: the test looks in the wrong place")
	}
	for _, secret := range []string{"hunter2", "token-1", "token-2", "mode: bypass"} {
		if i := strings.Index(said, secret); i >= 0 {
			t.Errorf("the log tells %q: …%s…", secret, said[max(0, i-200):min(len(said), i+50)])
		}
	}
}

// talk is a log that may be read while it is written.
type talk struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *talk) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *talk) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
