package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

func TestForgottenScriptsAreSentAgain(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	flush := func() {
		t.Helper()
		if err := boss.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	first, second := newHold(t, minute), newHold(t, minute)
	take(t, store, first, tierlock.Granted)
	flush()
	take(t, store, second, tierlock.Granted)
	flush()
	ctx, _ := within(t, time.Second)
	answers, err := store.Renew(ctx, []tierlock.Hold{first, newHold(t, minute), second})
	if err != nil || answers[0].Status != tierlock.Mine || answers[1].Status != tierlock.Gone || answers[2].Status != tierlock.Mine {
		t.Fatalf("renew: %+v, %v", answers, err)
	}
	flush()
	look(t, store, first, tierlock.Mine)
	flush()
	give(t, store, first, tierlock.Released)
	flush()
	if err := store.Probe(ctx, ""); err != nil {
		t.Errorf("probe: %v", err)
	}
}

func TestKeyThatIsNoLockIsNeverHeld(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	hold := newHold(t, minute)
	boss.SAdd(t.Context(), hold.Key.String(), "member")

	_, err := try(t, store, hold)
	wantFault(t, err, tierlock.ReasonWrongType, false)
	ctx, _ := within(t, time.Second)
	_, err = store.Release(ctx, hold)
	wantFault(t, err, tierlock.ReasonWrongType, false)
	answers, err := store.Renew(ctx, []tierlock.Hold{newHold(t, minute), hold})
	wantFault(t, err, tierlock.ReasonWrongType, false)
	if answers[0].Status != tierlock.Gone || answers[1].Status != 0 {
		t.Errorf("renew: %v and %v, want gone and no answer", answers[0].Status, answers[1].Status)
	}
	if boss.SCard(t.Context(), hold.Key.String()).Val() != 1 {
		t.Error("the set was touched")
	}
}

// One call of a script carries many renewals; what one of them meets is its own.
func TestRenewalsOfOneCallDoNotFailEachOther(t *testing.T) {
	const each = 50 // of three kinds: more than two calls
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	var holds []tierlock.Hold
	for range each {
		mine, set := newHold(t, minute), newHold(t, minute)
		take(t, store, mine, tierlock.Granted)
		boss.SAdd(t.Context(), set.Key.String(), "member")
		holds = append(holds, mine, set, tierlock.Hold{Key: mine.Key, ID: tierlock.NewRequestID(), TTL: minute})
	}
	ctx, _ := within(t, 5*time.Second)
	answers, err := store.Renew(ctx, holds)
	wantFault(t, err, tierlock.ReasonWrongType, false)
	for i, answer := range answers {
		if want := []tierlock.Status{tierlock.Mine, 0, tierlock.Held}[i%3]; answer.Status != want {
			t.Fatalf("renewal %d: %v, want %v", i, answer.Status, want)
		}
	}
}

func TestFenceRecordThatIsNoTokenGrantsNothing(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	for _, record := range []any{"abc", "9007199254740991", "1e300", "nan", "-inf", ""} {
		hold := newHold(t, minute)
		boss.Set(t.Context(), "{"+hold.Key.String()+"}:fence", record, 0)
		_, err := try(t, store, hold)
		wantFault(t, err, tierlock.ReasonWrongType, false)
		look(t, store, hold, tierlock.Gone)
	}
}

func TestFenceRecordOutlivesTheLock(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	for ttl, want := range map[time.Duration]time.Duration{minute: 24 * time.Hour, 10 * time.Hour: 100 * time.Hour} {
		hold := newHold(t, ttl)
		take(t, store, hold, tierlock.Granted)
		give(t, store, hold, tierlock.Released)
		left := boss.PTTL(t.Context(), "{"+hold.Key.String()+"}:fence").Val()
		if left > want || left < want-time.Minute {
			t.Errorf("ttl %v: the fence record lasts %v, want %v", ttl, left, want)
		}
	}
}

// Redis refuses writes that need memory, and nothing else: those who hold can go on.
func TestServerOutOfMemoryStillRenewsAndReleases(t *testing.T) {
	server := servers.Redis(t, "--maxmemory-policy", "noeviction")
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	hold := newHold(t, minute)
	take(t, store, hold, tierlock.Granted)
	configure(t, admin(t, server.Addr()), "maxmemory", "1")

	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)
	ctx, _ := within(t, time.Second)
	hold.TTL = 2 * minute
	if answers, err := store.Renew(ctx, []tierlock.Hold{hold}); err != nil || answers[0].Status != tierlock.Mine {
		t.Errorf("renew: %+v, %v", answers, err)
	}
	wantFault(t, store.Probe(ctx, ""), tierlock.ReasonDenied, false)
	give(t, store, hold, tierlock.Released)
}

func TestServerThatRefusesIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(*redis.Client) error
		reason tierlock.Reason
	}{
		"demoted": {func(boss *redis.Client) error { return boss.ReplicaOf(t.Context(), "127.0.0.1", "1").Err() }, tierlock.ReasonDenied},
		"demoted, and its master is gone": {func(boss *redis.Client) error {
			if err := boss.ConfigSet(t.Context(), "replica-serve-stale-data", "no").Err(); err != nil {
				return err
			}
			return boss.ReplicaOf(t.Context(), "127.0.0.1", "1").Err()
		}, tierlock.ReasonDown},
		"no replica to write to": {func(boss *redis.Client) error {
			return boss.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err()
		}, tierlock.ReasonDenied},
		"a command forbidden": {func(boss *redis.Client) error {
			return boss.Do(t.Context(), "acl", "setuser", "default", "-set").Err()
		}, tierlock.ReasonDenied},
		"a password set": {func(boss *redis.Client) error {
			return boss.ConfigSet(t.Context(), "requirepass", "secret").Err()
		}, tierlock.ReasonDenied},
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.Redis(t)
			if err := c.break_(admin(t, server.Addr())); err != nil {
				t.Fatal(err)
			}
			store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
			_, err := try(t, store, newHold(t, minute))
			wantFault(t, err, c.reason, false)
		})
	}
}

func TestPasswordOpensTheServer(t *testing.T) {
	server := servers.Redis(t)
	configure(t, admin(t, server.Addr()), "requirepass", "secret")
	take(t, open(t, redisstore.Config{Addrs: []string{server.Addr()}, Password: "secret"}), newHold(t, minute), tierlock.Granted)
	_, err := try(t, open(t, redisstore.Config{Addrs: []string{server.Addr()}, Password: "wrong"}), newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false)
}

// A pool that lost each of its dials must try again at the next question, not after a
// second: recovery is served at once.
func TestServerThatComesBackIsServedAtOnce(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}, PoolSize: 4})
	take(t, store, newHold(t, minute), tierlock.Granted)
	server.Kill()
	for range 20 {
		if _, err := try(t, store, newHold(t, minute)); err == nil {
			t.Fatal("a dead server answered")
		}
	}
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDown, false)
	server.Restart()
	take(t, store, newHold(t, minute), tierlock.Granted)
	if bound, ok := store.ClockError(); !ok || bound > time.Second {
		t.Errorf("clock error %v, %t", bound, ok)
	}
}

func TestConnectionsThatTheServerClosedAreReplacedUnseen(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	boss := admin(t, server.Addr())
	for range 5 {
		hold := newHold(t, minute)
		take(t, store, hold, tierlock.Granted)
		give(t, store, hold, tierlock.Released)
		if err := boss.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func configure(t *testing.T, boss *redis.Client, parameter, value string) {
	t.Helper()
	if err := boss.ConfigSet(t.Context(), parameter, value).Err(); err != nil {
		t.Fatal(err)
	}
}
