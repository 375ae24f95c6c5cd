package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// examined is what the only server of a store tells.
func examined(t *testing.T, store *redisstore.Store) redisstore.Examination {
	t.Helper()
	ctx, _ := within(t, 20*time.Second)
	found, err := store.Examine(ctx, "biz")
	if err != nil || len(found) != 1 || found[0].Err != nil {
		t.Fatalf("%v, %+v", err, found)
	}
	return found[0]
}

// Each right that the user lacks is named, and no other.
func TestExamineNamesTheRightThatIsMissing(t *testing.T) {
	server := servers.Redis(t)
	all := slices.Concat(neededCommands, usefulCommands)
	for i, right := range append(slices.Clone(all), "") {
		rights := slices.Clone(all)
		want := []string{strings.TrimPrefix(right, "+")}
		switch right {
		case "":
			want = nil
		case "&tierlock:inbox:*":
			rights, want = slices.Delete(rights, i, i+1), []string{"publish", "subscribe"}
		default:
			rights = slices.Delete(rights, i, i+1)
		}
		x := examined(t, openAs(t, server, rights))
		if !slices.Equal(x.Denied, want) {
			t.Errorf("without %q: %v", right, x.Denied)
		}
		if !x.RightsKnown && right != "+eval" {
			t.Errorf("without %q: rights are not known", right)
		}
	}
	enroll(t, server.Addr(), append(all, "~biz:*", "~{biz:*"))
	x := examined(t, open(t, redisstore.Config{Addrs: []string{server.Addr()}, Username: "tierlock", Password: "secret"}))
	if !slices.Equal(x.Denied, []string{"~tierlock:probe:*"}) {
		t.Errorf("without the keys of probes: %v", x.Denied)
	}
}

// It asks and changes nothing: no key, not for a moment.
func TestExamineWritesNothing(t *testing.T) {
	server := servers.Redis(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
	x := examined(t, open(t, redisstore.Config{Addrs: []string{server.Addr()}}))
	if x.Version == "" || x.Eviction != "allkeys-lru" || x.MaxMemory != 64<<20 || !x.Persistent || !x.ClockKnown || !x.RightsKnown || len(x.Denied) > 0 {
		t.Errorf("%+v", x)
	}
	if x.ClockOffset.Abs() > x.ClockError+time.Millisecond { // one host, one clock
		t.Errorf("the server's clock is %v ahead, give or take %v", x.ClockOffset, x.ClockError)
	}
	info, err := admin(t, server.Addr()).Info(t.Context(), "persistence", "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(info, "rdb_changes_since_last_save:0\r\n") {
		t.Errorf("something was written:\n%s", info)
	}
}

func TestExamineOfAServerThatIsAway(t *testing.T) {
	server := servers.Redis(t)
	store := open(t, redisstore.Config{Addrs: []string{server.Addr()}})
	server.Kill()
	ctx, _ := within(t, 20*time.Second)
	found, err := store.Examine(ctx, "biz")
	if err != nil || len(found) != 1 || found[0].Err == nil || found[0].Addr != server.Addr() {
		t.Errorf("%v, %+v", err, found)
	}
}
