package redisstore_test

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// servedIn is the requirement's: from the freeze of a master to a grant by the promoted one.
// noticedIn is how long after its promotion that grant may be.
const (
	servedIn  = 5 * time.Second
	noticedIn = 2 * time.Second
)

// grantedAgain asks for fresh locks of keys that pick allows, as the gateway does, until
// one is granted; it returns when that was.
func grantedAgain(t *testing.T, store *redisstore.Store, pick func(tierlock.Key) bool) (tierlock.Hold, time.Time) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		hold := newHold(t, minute)
		for !pick(hold.Key) {
			hold = newHold(t, minute)
		}
		if answer, err := try(t, store, hold); err == nil && answer.Status == tierlock.Granted {
			return hold, time.Now()
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("nothing is granted any more")
	return tierlock.Hold{}, time.Time{}
}

func anyKey(tierlock.Key) bool { return true }

// The whole story of a failover: the frozen master's locks live on, the promoted one serves
// in time, and the old one, which wakes up and does not know, grants what is held, with a
// token that is even higher. Nobody but the resource can tell those two apart.
func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	w := servers.Sentinels(t, 1)
	old, next := w.Nodes[0], w.Nodes[1]
	for _, addr := range w.Addrs() {
		enroll(t, addr, sentinelRights)
	}
	store := open(t, redisstore.Config{Addrs: w.Addrs(), Sentinel: &redisstore.SentinelConfig{
		Master: w.Name, Username: "tierlock", Password: "secret",
	}})
	unaware := open(t, redisstore.Config{Addrs: []string{old.Addr()}}) // a process that has not heard of it
	held := newHold(t, minute)
	first := take(t, store, held, tierlock.Granted)
	replica := admin(t, next.Addr())
	eventually(t, "the lock is on the replica", func() bool { return replica.Exists(t.Context(), held.Key.String()).Val() == 1 })

	old.Freeze()
	frozen := time.Now()
	promoted := make(chan time.Time)
	go func() {
		eventually(t, "a replica is promoted", func() bool {
			role, err := replica.Do(t.Context(), "role").Slice()
			return err == nil && role[0] == "master"
		})
		promoted <- time.Now()
	}()
	mine, served := grantedAgain(t, store, anyKey)
	noticed := served.Sub(<-promoted)
	t.Logf("promoted %v after the freeze, served %v after it", served.Add(-noticed).Sub(frozen), served.Sub(frozen))
	if served.Sub(frozen) > servedIn || noticed > noticedIn {
		t.Errorf("served %v after the freeze, %v after the promotion", served.Sub(frozen), noticed)
	}

	ctx, _ := within(t, time.Second)
	answers, err := store.Renew(ctx, []tierlock.Hold{held, mine})
	if err != nil || answers[0].Status != tierlock.Mine || answers[1].Status != tierlock.Mine {
		t.Errorf("renewals at the promoted master: %+v, %v", answers, err)
	}
	if bound, ok := store.ClockError(); !ok || bound > time.Second {
		t.Errorf("clock error %v, %t", bound, ok)
	}

	old.Thaw()
	rival := tierlock.Hold{Key: mine.Key, ID: tierlock.NewRequestID(), TTL: minute}
	granted := take(t, unaware, rival, tierlock.Granted)
	look(t, store, mine, tierlock.Mine)
	ours, err := try(t, store, mine)
	if err != nil || granted.Token <= ours.Token {
		t.Errorf("two hold the key: token %d where nobody looks any more, %d at the master, %v", granted.Token, ours.Token, err)
	}
	for range 20 { // it never goes back
		hold := newHold(t, minute)
		take(t, store, hold, tierlock.Granted)
		if replica.Exists(t.Context(), hold.Key.String()).Val() != 1 {
			t.Fatal("a lock is not on the promoted master")
		}
	}
	give(t, store, held, tierlock.Released)
	if again := take(t, store, tierlock.Hold{Key: held.Key, ID: tierlock.NewRequestID(), TTL: minute}, tierlock.Granted); again.Token <= first.Token {
		t.Errorf("token %d after the failover, %d before", again.Token, first.Token)
	}
}

// A master that was made a replica behind the store's back refuses to write. The store then
// looks for the master anew, and never takes a copy's word for it.
func TestDemotedMasterIsLeft(t *testing.T) {
	t.Parallel()
	old, next := servers.Redis(t), servers.Redis(t)
	s := newFakeSentinel(t, old.Addr(), 1)
	store := open(t, behind(s))
	hold := newHold(t, minute)
	take(t, store, hold, tierlock.Granted)

	boss := admin(t, old.Addr())
	if err := boss.Do(t.Context(), "replicaof", "127.0.0.1", port(t, next.Addr())).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDenied, false) // READONLY
	if err := boss.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, _ := within(t, time.Second)
	_, err = store.Lookup(ctx, hold) // which needs no write
	wantFault(t, err, tierlock.ReasonDown, false)
	asked := s.asked()
	s.told.Store(&told{next.Addr(), 2})
	grantedAgain(t, store, anyKey)
	if s.asked() == asked {
		t.Error("the sentinel was not asked")
	}
	look(t, store, hold, tierlock.Gone) // it was never copied
}
