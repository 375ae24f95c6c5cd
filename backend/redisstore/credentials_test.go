package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// purse is where a test keeps the password that is good now.
type purse struct {
	password atomic.Value // string
	fails    atomic.Bool
	asked    atomic.Int64
}

func (p *purse) credentials(context.Context) (username, password string, err error) {
	p.asked.Add(1)
	if p.fails.Load() {
		return "", "", errors.New("the vault is away")
	}
	return "tierlock", p.password.Load().(string), nil
}

func aclUser(t *testing.T, server *servers.RedisServer, rules ...any) {
	t.Helper()
	if err := admin(t, server.Addr()).Do(t.Context(), append([]any{"acl", "setuser", "tierlock"}, rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
}

// passwordChanges has five rotations while locks are taken and given back: no question is refused. The
// connections of the old password go on until they are ended; then new ones are made with
// the new one, without a restart.
func passwordChanges(t *testing.T, e *estate) {
	var now purse
	now.password.Store("secret")
	e.as(t, slices.Concat(e.needed, e.useful))
	cfg := e.cfg
	cfg.Credentials, cfg.PoolSize = now.credentials, 8
	store := open(t, cfg)
	tell := func(rule string) {
		for _, n := range e.nodes {
			aclUser(t, n, rule)
		}
	}

	ending := make(chan struct{})
	var workers sync.WaitGroup
	var pairs atomic.Int64
	for range 4 {
		workers.Go(func() {
			for {
				select {
				case <-ending:
					return
				default:
				}
				hold := newHold(t, minute)
				ctx, deadline := within(t, 5*time.Second)
				_, err := store.Acquire(ctx, tierlock.Request{Hold: hold, NotAfter: deadline, Fenced: true})
				if err == nil {
					_, err = store.Release(ctx, hold)
				}
				if err != nil {
					t.Errorf("under rotation: %v", err)
					return
				}
				pairs.Add(1)
			}
		})
	}
	for _, step := range [][2]string{{"secret", "p1"}, {"p1", "p2"}, {"p2", "p3"}, {"p3", "p4"}, {"p4", "p5"}} {
		before := pairs.Load()
		tell(">" + step[1])
		now.password.Store(step[1])
		tell("<" + step[0])
		eventually(t, "locks after the rotation", func() bool { return pairs.Load() > before+50 })
	}
	close(ending)
	workers.Wait()

	asked := now.asked.Load()
	for _, addr := range e.addrs() {
		killed, err := admin(t, addr).Do(t.Context(), "client", "kill", "user", "tierlock").Int()
		if err != nil || killed == 0 {
			t.Fatalf("%d killed, %v", killed, err)
		}
	}
	for range 20 {
		hold := newHold(t, minute)
		take(t, store, hold, tierlock.Granted)
		give(t, store, hold, tierlock.Released)
	}
	if now.asked.Load() == asked {
		t.Error("nobody was asked for a password after all connections were ended")
	}
}

// A store whose password stays what it was is refused after the same: the test above
// would see it.
func TestPasswordThatIsGoneOpensNoNewConnection(t *testing.T) {
	server := servers.Redis(t)
	aclUser(t, server, "reset", "on", ">p0", "~*", "&*", "+@all")
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}, Username: "tierlock", Password: "p0"})
	take(t, store, newHold(t, minute), tierlock.Granted)
	aclUser(t, server, ">p1", "<p0")
	take(t, store, newHold(t, minute), tierlock.Granted) // the connection that is there goes on
	if err := admin(t, server.Addr()).Do(t.Context(), "client", "kill", "user", "tierlock").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)
	if !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("%v, want the server's words", err)
	}
}

func TestCredentialsThatFail(t *testing.T) {
	server := servers.Redis(t)
	aclUser(t, server, "reset", "on", ">p0", "~*", "&*", "+@all")
	var now purse
	var log bytes.Buffer
	now.password.Store("")
	store := open(t, redisstore.Config{
		Addrs: []string{server.Addr()}, Credentials: now.credentials, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false) // an empty password is none
	now.fails.Store(true)
	_, err = try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)
	if !strings.Contains(err.Error(), "the vault is away") {
		t.Errorf("%v, want the source's own words", err)
	}

	now.fails.Store(false)
	now.password.Store("p0")
	take(t, store, newHold(t, minute), tierlock.Granted)
	now.fails.Store(true)
	if err := admin(t, server.Addr()).Do(t.Context(), "client", "kill", "user", "tierlock").Err(); err != nil {
		t.Fatal(err)
	}
	take(t, store, newHold(t, minute), tierlock.Granted) // with what was told last
	if text := log.String(); !strings.Contains(text, "the last ones are used") || strings.Contains(text, "p0") {
		t.Errorf("log %q", text)
	}
}

// Whoever waits for a vault is still back in time.
func TestCredentialsThatHangAreNotWaitedFor(t *testing.T) {
	store := open(t, redisstore.Config{
		Addrs: []string{miniredis.RunT(t).Addr()},
		Credentials: func(ctx context.Context) (string, string, error) {
			<-ctx.Done()
			return "", "", ctx.Err()
		},
	})
	ctx, deadline := within(t, attempt)
	_, err := store.Acquire(ctx, tierlock.Request{Hold: newHold(t, minute), NotAfter: deadline})
	wantFault(t, err, tierlock.ReasonAttempt, false)
	if late := time.Since(deadline); late > grace {
		t.Errorf("back %v after the deadline", late)
	}
}
