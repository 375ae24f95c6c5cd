package redisstore_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// What stands in the store beside a lock that was entered, field by field.
func TestRecordOfEntriesOnARealServer(t *testing.T) {
	server := servers.Redis(t)
	store, boss := open(t, redisstore.Config{Addrs: []string{server.Addr()}}), admin(t, server.Addr())
	hold := newHold(t, minute)
	record := "{" + hold.Key.String() + "}:depth"
	fields := func() []string {
		all := boss.HGetAll(t.Context(), record).Val()
		if tag, ok := all["id"]; ok && tag != hold.ID.Secret() {
			t.Errorf("tagged %q", tag)
		}
		return slices.Sorted(maps.Keys(all))
	}
	want := func(what string, answer tierlock.Answer, status tierlock.Status, depth int, in ...string) {
		t.Helper()
		if answer.Status != status || answer.Depth != depth || !slices.Equal(fields(), in) {
			t.Errorf("%s: %v at depth %d, the record has %v; want %v, %d, %v", what, answer.Status, answer.Depth, fields(), status, depth, in)
		}
	}
	enter := func(entry uint64) tierlock.Answer {
		t.Helper()
		in := hold
		in.Entry = entry
		answer, err := try(t, store, in)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	leave := func(entry uint64) tierlock.Answer {
		t.Helper()
		out := hold
		out.Entry = entry
		ctx, _ := within(t, 5*time.Second)
		answer, err := store.Release(ctx, out)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}

	want("a lock that nobody entered", enter(0), tierlock.Granted, 1)
	want("entered", enter(7), tierlock.Mine, 2, "0", "7", "id")
	want("entered again", enter(7), tierlock.Mine, 2, "0", "7", "id")
	if lock, beside := boss.PTTL(t.Context(), hold.Key.String()).Val(), boss.PTTL(t.Context(), record).Val(); (lock - beside).Abs() > 100*time.Millisecond {
		t.Errorf("the lock lasts %v, its record %v", lock, beside)
	}
	ctx, _ := within(t, 5*time.Second)
	longer := hold
	longer.TTL = 3 * minute
	if _, err := store.Renew(ctx, []tierlock.Hold{longer}); err != nil {
		t.Fatal(err)
	}
	if beside := boss.PTTL(t.Context(), record).Val(); beside < 2*minute {
		t.Errorf("renewed, and the record lasts %v", beside)
	}
	want("the acquisition left", leave(0), tierlock.Mine, 1, "7", "id")
	want("and again", leave(0), tierlock.Mine, 1, "7", "id")
	want("the last one left", leave(7), tierlock.Released, 0)

	// Another id's record, as a lock leaves it that was evicted alone.
	other := tierlock.NewRequestID().Secret()
	boss.HSet(t.Context(), record, "id", other, "0", 1, "7", 1, "8", 1)
	if answer := enter(0); answer.Status != tierlock.Granted || answer.Depth != 1 {
		t.Errorf("granted beside another's record: %v at depth %d", answer.Status, answer.Depth)
	}
	if answer := leave(0); answer.Status != tierlock.Released {
		t.Errorf("another's record kept the lock: %v at depth %d", answer.Status, answer.Depth)
	}
	boss.HSet(t.Context(), record, "id", other, "0", 1, "7", 1, "8", 1)
	enter(0)
	want("entered over another's record", enter(9), tierlock.Mine, 2, "0", "9", "id")
	leave(9)
	want("left", leave(0), tierlock.Released, 0)
}

// A record that is none refuses the operation that meets it, by name, and no other.
func TestARecordOfAnotherTypeIsTold(t *testing.T) {
	server := servers.Redis(t)
	store, boss := open(t, redisstore.Config{Addrs: []string{server.Addr()}}), admin(t, server.Addr())
	hold := newHold(t, minute)
	if _, err := try(t, store, hold); err != nil {
		t.Fatal(err)
	}
	record := "{" + hold.Key.String() + "}:depth"
	boss.Set(t.Context(), record, "text", 0)
	entry := hold
	entry.Entry = 7
	_, err := try(t, store, entry)
	wantFault(t, err, tierlock.ReasonWrongType, false)
	give(t, store, hold, tierlock.Released) // never entered: nobody looks at the record

	boss.Del(t.Context(), record)
	for _, one := range []tierlock.Hold{hold, entry} {
		if _, err := try(t, store, one); err != nil {
			t.Fatal(err)
		}
	}
	boss.Set(t.Context(), record, "text", 0)
	ctx, _ := within(t, 5*time.Second)
	_, err = store.Release(ctx, hold)
	wantFault(t, err, tierlock.ReasonWrongType, false)
	_, err = store.Lookup(ctx, hold)
	wantFault(t, err, tierlock.ReasonWrongType, false)
}

// Many holds are renewed in one call, those that were entered with their records.
func TestEnteredLocksAreRenewedAmongOthers(t *testing.T) {
	server := servers.Redis(t)
	store, boss := open(t, redisstore.Config{Addrs: []string{server.Addr()}}), admin(t, server.Addr())
	var holds []tierlock.Hold
	for i := range 5 {
		hold := newHold(t, minute)
		take(t, store, hold, tierlock.Granted)
		if i%2 == 1 {
			in := hold
			in.Entry = 7
			take(t, store, in, tierlock.Mine)
		}
		hold.TTL = 3 * minute
		holds = append(holds, hold)
	}
	ctx, _ := within(t, 5*time.Second)
	answers, err := store.Renew(ctx, holds)
	if err != nil {
		t.Fatal(err)
	}
	for i, hold := range holds {
		if answers[i].Status != tierlock.Mine || time.Until(answers[i].Until) < 2*minute {
			t.Errorf("%d: %v until %v", i, answers[i].Status, answers[i].Until)
		}
		beside := boss.PTTL(t.Context(), "{"+hold.Key.String()+"}:depth").Val()
		if entered := i%2 == 1; entered && beside < 2*minute || !entered && beside > 0 {
			t.Errorf("%d: its record lasts %v", i, beside)
		}
	}
}
