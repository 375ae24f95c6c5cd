package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
	"github.com/tierlock/tierlock/internal/way"
)

const longest = 10 * time.Minute

func surveyed(t *testing.T, store *redisstore.Store) []redisstore.Survey {
	t.Helper()
	ctx, _ := within(t, 20*time.Second)
	found, err := store.Survey(ctx, "biz", longest)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// plant leaves on a server what no request of ours leaves, and what is none of our business;
// it returns the keys of the first.
func plant(t *testing.T, boss redis.Cmdable, name string) (strays []string) {
	t.Helper()
	ctx := t.Context()
	key := func(what string) string { return "biz:order:lock:" + name + "-" + what }
	beside := func(what, record string) string { return "{" + key(what) + "}:" + record }
	never, set, later := key("never"), key("set"), key("later")
	fence, line, depth := beside("a", "fence"), beside("a", "wait"), beside("a", "depth")
	for _, err := range []error{
		boss.Set(ctx, never, "x", 0).Err(),
		boss.SAdd(ctx, set, "x").Err(), boss.Expire(ctx, set, time.Minute).Err(),
		boss.Set(ctx, later, "x", time.Hour).Err(),
		boss.HSet(ctx, fence, "x", "1").Err(),
		boss.ZAdd(ctx, line, redis.Z{Score: 1, Member: "x"}).Err(),
		boss.Set(ctx, depth, "x", time.Minute).Err(),

		boss.Set(ctx, key("sound"), "x", longest).Err(),
		boss.Set(ctx, beside("sound", "fence"), "5", 24*time.Hour).Err(),
		boss.Set(ctx, "biz:order:cache:"+name, "x", 0).Err(),
		boss.Set(ctx, "ubiz:order:lock:"+name, "x", 0).Err(),
		boss.Set(ctx, "{biz:order:lock:"+name+"}:note", "x", 0).Err(),
		boss.HSet(ctx, "biz:user:42:lock:"+name, "x", "1").Err(),
		boss.HSet(ctx, "biz::lock:"+name, "x", "1").Err(),
		boss.HSet(ctx, "biz:Order:lock:"+name, "x", "1").Err(),
		boss.Set(ctx, "{biz:user:42:lock:"+name+"}:depth", "x", 0).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{never, set, later, fence, line, depth}
}

// wantStrays fails unless the surveys tell just these.
func wantStrays(t *testing.T, found []redisstore.Survey, want []string) {
	t.Helper()
	var got []string
	for _, s := range found {
		if s.Err != nil || !s.Whole || s.More != 0 {
			t.Errorf("%+v", s)
		}
		for _, one := range s.Strays {
			got = append(got, one.Key)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("told\n%q, want\n%q", got, want)
	}
}

// What a store leaves itself is no stray, held, entered, fenced and waited for; what others
// have left is told, and neither other keys nor more keys than one page keep it hidden.
func TestSurveyTellsWhatIsNoLockOfOurs(t *testing.T) {
	server := servers.Redis(t)
	boss := admin(t, server.Addr())
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	key, err := tierlock.ParseKey("biz:order:lock:held")
	if err != nil {
		t.Fatal(err)
	}
	hold := tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: longest}
	entry := hold
	entry.Entry = 7
	take(t, store, hold, tierlock.Granted)
	take(t, store, entry, tierlock.Mine)
	lineUp(t, store, other(hold))
	wantStrays(t, surveyed(t, store), nil)
	if keys := surveyed(t, store)[0].Keys; keys != 4 { // with its three records
		t.Errorf("%d keys were looked at, want 4", keys)
	}

	strays := plant(t, boss, "a")
	fill := boss.Pipeline()
	for i := range 5000 {
		fill.Set(t.Context(), fmt.Sprintf("biz:order:lock:f%d", i), "x", time.Minute)
	}
	if _, err := fill.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := surveyed(t, store)
	wantStrays(t, found, strays)
	for _, s := range found[0].Strays {
		never, wrong := s.Left < 0, s.WrongType()
		switch s.Key {
		case strays[0], strays[4]:
			if !never || wrong {
				t.Errorf("%+v", s)
			}
		case strays[1], strays[5]:
			if never || !wrong {
				t.Errorf("%+v", s)
			}
		case strays[2]:
			if s.Left <= longest || wrong {
				t.Errorf("%+v", s)
			}
		}
	}

	// It is bounded in what it tells.
	for i := range 150 {
		if err := boss.Persist(t.Context(), fmt.Sprintf("biz:order:lock:f%d", i)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if many := surveyed(t, store)[0]; len(many.Strays) != 100 || many.More != 56 {
		t.Errorf("%d told, %d more", len(many.Strays), many.More)
	}

	if denied := surveyed(t, openAs(t, server, slices.Concat(neededCommands, usefulCommands)))[0]; !redisstore.Denied(denied.Err) {
		t.Errorf("as a user without the right to scan: %+v", denied)
	}
}

// A server that answers no more in the middle of it does not pass for one that was gone through,
// and holds nobody up beyond the time given.
func TestSurveyOfAServerThatHangsEndsInTime(t *testing.T) {
	server := servers.Redis(t)
	w, err := way.To(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	store := open(t, redisstore.Config{Addrs: []string{w.Addr()}})
	if well := surveyed(t, store)[0]; !well.Whole || well.Late || well.Err != nil || well.Passed == 0 {
		t.Errorf("while it answers: %+v", well)
	}
	w.Become(way.BlackHole)
	ctx, deadline := within(t, 300*time.Millisecond)
	found, err := store.Survey(ctx, "biz", longest)
	if late := time.Since(deadline); late > 5*time.Second { // a socket waits for longer than that by itself
		t.Errorf("%v after its deadline", late)
	}
	if err != nil || len(found) != 1 || found[0].Whole || !found[0].Late || found[0].Err != nil || found[0].Passed != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// Every master of a Cluster is gone through.
func TestSurveyGoesThroughEveryMaster(t *testing.T) {
	c := servers.Cluster(t, 3, 0)
	boss := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = boss.Close() })
	store := open(t, redisstore.Config{Addrs: c.Addrs()[:1], Cluster: true})
	var strays []string
	for i := range 8 {
		strays = append(strays, plant(t, boss, fmt.Sprint(i))...)
	}
	found := surveyed(t, store)
	wantStrays(t, found, strays)
	for _, s := range found {
		if len(s.Strays) == 0 {
			t.Errorf("%s has none of %d", s.Addr, len(strays))
		}
	}
}
