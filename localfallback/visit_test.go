package localfallback

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

// recordOf is what the cache has for key.
func recordOf(t *testing.T, table *Table, key tierlock.Key) *record {
	t.Helper()
	e, found := table.records.GetEntryQuietly(key)
	if !found {
		t.Fatalf("no record of %s", key)
	}
	return e.Value
}

func attemptOf(table *Table, hold tierlock.Hold) *attempt {
	now := table.clock.now()
	return &attempt{id: hold.ID, now: now, until: now + moment(hold.TTL), permits: 1}
}

// A caller has found a record and is overtaken by its drop: it must see the mark, and ask
// again for what has taken the record's place.
func TestDroppedRecordLetsNobodyIn(t *testing.T) {
	table := newTable(t, Config{Permits: 1})
	hold := holdOf(t, "k", time.Minute)
	take(t, table, hold, tierlock.Granted)
	give(t, table, hold, tierlock.Released)
	found := recordOf(t, table, hold.Key)
	table.drop(hold.Key, found)
	if done, _ := table.visit(found, table.clock.now(), func(*record) { t.Error("a dropped record was asked") }); done {
		t.Error("a dropped record answered")
	}
	take(t, table, hold, tierlock.Granted)
	give(t, table, hold, tierlock.Released)
}

// The mark is set before the record is out of the cache: who finds it then goes to Compute.
func TestRecordAboutToLeaveLetsNobodyIn(t *testing.T) {
	table := newTable(t, Config{Permits: 1})
	hold := holdOf(t, "k", time.Minute)
	take(t, table, hold, tierlock.Granted)
	give(t, table, hold, tierlock.Released)
	recordOf(t, table, hold.Key).dead = true
	if table.attend(hold.Key, attemptOf(table, hold)) {
		t.Error("a grant on a record that is leaving")
	}
}

// A caller comes in between the release that made a record idle and its drop.
func TestDropSparesARecordWithAHolder(t *testing.T) {
	table := newTable(t, Config{Permits: 1})
	hold := holdOf(t, "k", time.Minute)
	take(t, table, hold, tierlock.Granted)
	table.drop(hold.Key, recordOf(t, table, hold.Key))
	take(t, table, tierlock.Hold{Key: hold.Key, ID: tierlock.NewRequestID(), TTL: time.Second}, tierlock.Held)
	give(t, table, hold, tierlock.Released)
}

// A holder that outlasts its record's expiry must move it, which only Compute does: the
// cache would sweep the record under the holder.
func TestLongHolderIsKeptInAShortHoldersRecord(t *testing.T) {
	inBubble(t, Config{Permits: 1}, func(t *testing.T, table *Table) {
		short, long := holdOf(t, "k", time.Second), holdOf(t, "k", time.Minute)
		take(t, table, short, tierlock.Granted)
		give(t, table, short, tierlock.Released)
		take(t, table, long, tierlock.Granted)
		time.Sleep(30 * time.Second)
		take(t, table, holdOf(t, "k", time.Second), tierlock.Held)
		give(t, table, long, tierlock.Released)
	})
}

// A record is kept as long as the last of its holders, whoever ends before: the cache would
// let more in than there are permits.
func TestLongHolderIsKeptBesideAShortOne(t *testing.T) {
	inBubble(t, Config{Permits: 2}, func(t *testing.T, table *Table) {
		take(t, table, holdOf(t, "k", time.Second), tierlock.Granted)
		long := holdOf(t, "k", time.Minute)
		take(t, table, long, tierlock.Granted)
		time.Sleep(30 * time.Second)
		take(t, table, holdOf(t, "k", time.Second), tierlock.Granted)
		take(t, table, holdOf(t, "k", time.Second), tierlock.Held)
		give(t, table, long, tierlock.Released)
	})
}
