package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
	"github.com/tierlock/tierlock/internal/servers"
)

// patience is what a question gets: the slot goes on standing half moved meanwhile, so time
// alone helps none, and a busy machine is no reason to fail.
const patience = 5 * time.Second

// slotStandsHalfMoved leaves a slot between two servers, as an operator does who goes home
// in the middle of it. Each question about a lock there is answered, whichever of the lock's
// records are there and have moved.
func slotStandsHalfMoved(t *testing.T, c *servers.RedisCluster, store *redisstore.Store) {
	const lock, fence, line = "", ":fence", ":wait" // behind the key; the last two behind it in braces
	for name, one := range map[string]struct {
		fenced bool
		before bool     // it was held and given back before
		held   bool     // it is held
		waits  bool     // and another stands in line
		moved  []string // of the records
	}{
		"free, plain":                        {},
		"free, fenced":                       {fenced: true},
		"free, fence stays":                  {fenced: true, before: true},
		"free, fence moved":                  {fenced: true, before: true, moved: []string{fence}},
		"plain, stays":                       {held: true},
		"plain, moved":                       {held: true, moved: []string{lock}},
		"plain, line stays, lock stays":      {held: true, waits: true},
		"plain, line stays, lock moved":      {held: true, waits: true, moved: []string{lock}},
		"fenced, all stay":                   {fenced: true, held: true},
		"fenced, fence moved":                {fenced: true, held: true, moved: []string{fence}},
		"fenced, lock moved":                 {fenced: true, held: true, moved: []string{lock}},
		"fenced, both moved":                 {fenced: true, held: true, moved: []string{lock, fence}},
		"fenced, line moved, both stay":      {fenced: true, held: true, waits: true, moved: []string{line}},
		"fenced, line and lock, not fence":   {fenced: true, held: true, waits: true, moved: []string{lock, line}},
		"fenced, line and fence, not lock":   {fenced: true, held: true, waits: true, moved: []string{fence, line}},
		"fenced, held before, nothing moved": {fenced: true, before: true, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := mover{t: t, store: store, key: keyOfFirstShard(t), fenced: one.fenced}
			way := newSlot{admin(t, c.Shards[0][0].Addr()), admin(t, c.Shards[1][0].Addr()), redisstore.SlotOf(m.key)}
			record := func(suffix string) string {
				if suffix == lock {
					return m.key.String()
				}
				return "{" + m.key.String() + "}" + suffix
			}
			if one.before {
				id := m.granted()
				m.give(id, tierlock.Released)
			}
			var first, second tierlock.RequestID
			if one.held {
				first = m.granted()
			}
			if one.waits {
				second = tierlock.NewRequestID()
				m.claim(second, 20*time.Second)
			}
			way.begin(t)
			defer func() {
				for _, suffix := range []string{lock, fence, line} {
					way.carry(t, record(suffix))
				}
				way.end(t)
			}()
			for _, suffix := range one.moved {
				way.carry(t, record(suffix))
			}

			if one.held {
				m.held(first)
			}
			for range 3 {
				id := m.granted()
				m.held(id)
				m.give(id, tierlock.Gone)
			}
			m.passed()
		})
	}
}

// tokensRiseWhereTheyAreApart has several contend for a lock that stays where it is, while its
// fence record has moved: each token was minted elsewhere, and they rise all the same.
func tokensRiseWhereTheyAreApart(t *testing.T, c *servers.RedisCluster, store *redisstore.Store) {
	m := mover{t: t, store: store, key: keyOfFirstShard(t), fenced: true}
	way := newSlot{admin(t, c.Shards[0][0].Addr()), admin(t, c.Shards[1][0].Addr()), redisstore.SlotOf(m.key)}
	m.give(m.granted(), tierlock.Released)
	stays := m.granted() // a slot that is empty moves whole
	way.begin(t)
	way.carry(t, "{"+m.key.String()+"}:fence")
	fence := func() string {
		t.Helper()
		pipe := way.to.Pipeline()
		pipe.Do(t.Context(), "asking")
		get := pipe.Get(t.Context(), "{"+m.key.String()+"}:fence")
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		return get.Val()
	}
	before := fence()
	m.claim(tierlock.NewRequestID(), time.Second)
	if now := fence(); now != before {
		t.Errorf("a token was minted before the lock was taken: %s after %s", now, before)
	}
	m.give(stays, tierlock.Released)
	var r resource
	var workers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer workers.Wait()
	defer stop()
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				work(t, store, m.key, true, &r)
			}
		})
	}
	eventually(t, "there were many grants", func() bool { return r.grants.Load() > 60 || t.Failed() })
	stop()
	workers.Wait()
	way.carry(t, m.key.String())
	way.end(t)
}

// enteredLockIsKept has a lock that was entered, and the record of its entries, on either side
// of a moving slot. Its renewals go on, and the record never ends before the lock. Entering
// and leaving need both in one place: they are refused until the slot has moved.
func enteredLockIsKept(t *testing.T, c *servers.RedisCluster, store *redisstore.Store) {
	const lock, depth = "", ":depth"
	for name, moved := range map[string][]string{
		"all stays": nil, "lock moved": {lock}, "record moved": {depth}, "both moved": {lock, depth},
	} {
		t.Run(name, func(t *testing.T) {
			m := mover{t: t, store: store, key: keyOfFirstShard(t)}
			way := newSlot{admin(t, c.Shards[0][0].Addr()), admin(t, c.Shards[1][0].Addr()), redisstore.SlotOf(m.key)}
			record := map[string]string{lock: m.key.String(), depth: "{" + m.key.String() + "}" + depth}
			id := m.granted()
			hold := func(entry uint64) tierlock.Hold {
				return tierlock.Hold{Key: m.key, ID: id, TTL: 2 * minute, Entry: entry}
			}
			enter := func(entry uint64) (tierlock.Answer, error) {
				ctx, deadline := within(t, patience)
				return store.Acquire(ctx, tierlock.Request{Hold: hold(entry), NotAfter: deadline})
			}
			leave := func(entry uint64) (tierlock.Answer, error) {
				ctx, _ := within(t, patience)
				return store.Release(ctx, hold(entry))
			}
			if a, err := enter(1); err != nil || a.Depth != 2 {
				t.Fatalf("enter: %v, %v", a, err)
			}
			way.begin(t)
			for _, suffix := range moved {
				way.carry(t, record[suffix])
			}
			if len(moved) == 1 {
				ctx, deadline := within(t, attempt)
				if a, err := store.Acquire(ctx, tierlock.Request{Hold: hold(2), NotAfter: deadline}); reasonOf(err) != tierlock.ReasonAttempt {
					t.Errorf("enter: %+v, %v", a, err)
				}
				ctx, _ = within(t, attempt)
				if a, err := store.Release(ctx, hold(1)); reasonOf(err) != tierlock.ReasonAttempt {
					t.Errorf("leave: %+v, %v", a, err)
				}
			}
			for range 2 { // the second finds all as it is to be
				another := newHold(t, minute) // in a slot of its own, asked about in the same call
				ctx, _ := within(t, patience)
				answers, err := store.Renew(ctx, []tierlock.Hold{another, hold(0)})
				if err != nil || answers[1].Status != tierlock.Mine || time.Until(answers[1].Until) < minute+minute/2 || answers[0].Status != tierlock.Gone {
					t.Errorf("renew: %+v, %v", answers, err)
				}
				ctx, _ = within(t, patience)
				if answers, err = store.Renew(ctx, []tierlock.Hold{hold(0)}); err != nil || answers[0].Status != tierlock.Mine {
					t.Errorf("renew alone: %+v, %v", answers, err)
				}
			}
			for _, suffix := range []string{lock, depth} {
				way.carry(t, record[suffix])
			}
			way.end(t)
			left := func(key string) time.Duration { return way.to.PTTL(t.Context(), key).Val() }
			if r, l := left(record[depth]), left(record[lock]); r < l || l < minute+minute/2 || len(moved) == 1 && r < l+minute {
				t.Errorf("the record lasts %v, its lock %v", r, l)
			}
			if a, err := leave(0); err != nil || a.Status != tierlock.Mine || a.Depth != 1 {
				t.Errorf("leave: %+v, %v", a, err)
			}
			if a, err := leave(1); err != nil || a.Status != tierlock.Released {
				t.Errorf("leave with the last: %+v, %v", a, err)
			}
		})
	}
}

// wholeClusterIsDown takes a slot's server away where that takes every key along, and says so
// once.
func wholeClusterIsDown(t *testing.T, c *servers.RedisCluster, store *redisstore.Store, log *diary) {
	key := keyOfFirstShard(t)
	boss := admin(t, c.Shards[0][0].Addr())
	if err := boss.ConfigSet(t.Context(), "cluster-require-full-coverage", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if err := boss.ClusterDelSlots(t.Context(), 4999).Err(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := try(t, store, tierlock.Hold{Key: key, ID: tierlock.NewRequestID(), TTL: minute})
		wantFault(t, err, tierlock.ReasonDown, false)
	}
	if told := strings.Count(log.String(), "cluster-require-full-coverage"); told != 1 {
		t.Errorf("told %d times why nothing is served, want once:\n%s", told, log.String())
	}
}

// diary is a log that can be read while it is written.
type diary struct {
	mu   sync.Mutex
	text strings.Builder
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// halfMoved are the slots that keyOfFirstShard has given out: a slot moves once.
var halfMoved sync.Map

// keyOfFirstShard is a key that nobody else uses, nor its slot.
func keyOfFirstShard(t *testing.T) tierlock.Key {
	for {
		key := newHold(t, minute).Key
		slot := redisstore.SlotOf(key)
		if _, given := halfMoved.LoadOrStore(slot, true); !given && slot < 4000 {
			return key
		}
	}
}

// mover asks about one key whose slot is on its way.
type mover struct {
	t      *testing.T
	store  *redisstore.Store
	key    tierlock.Key
	fenced bool
	last   tierlock.Token
}

func (m *mover) claim(id tierlock.RequestID, wait time.Duration) tierlock.Answer {
	m.t.Helper()
	ctx, deadline := within(m.t, patience)
	req := tierlock.Request{Hold: tierlock.Hold{Key: m.key, ID: id, TTL: minute}, NotAfter: deadline, Fenced: m.fenced}
	if wait > 0 {
		req.WaitTill = time.Now().Add(wait)
	}
	answer, err := m.store.Acquire(ctx, req)
	if err != nil {
		m.t.Fatalf("acquire: %v", err)
	}
	return answer
}

func (m *mover) granted() tierlock.RequestID {
	m.t.Helper()
	id := tierlock.NewRequestID()
	m.took(m.claim(id, 0))
	return id
}

// took checks a grant and its token.
func (m *mover) took(answer tierlock.Answer) {
	m.t.Helper()
	if answer.Status != tierlock.Granted || answer.Depth != 1 || m.fenced && answer.Token <= m.last {
		m.t.Fatalf("%v at depth %d with token %d after %d, want a grant with a higher one", answer.Status, answer.Depth, answer.Token, m.last)
	}
	if left := time.Until(answer.Until); left < minute/2 {
		m.t.Fatalf("granted for %v", left)
	}
	m.last = answer.Token
}

func (m *mover) give(id tierlock.RequestID, want tierlock.Status) {
	m.t.Helper()
	ctx, _ := within(m.t, patience)
	if answer, err := m.store.Release(ctx, tierlock.Hold{Key: m.key, ID: id}); err != nil || answer.Status != want {
		m.t.Fatalf("release: %v, %v, want %v", answer.Status, err, want)
	}
}

func (m *mover) renewed(id tierlock.RequestID, want tierlock.Status) {
	m.t.Helper()
	hold := tierlock.Hold{Key: m.key, ID: id, TTL: 2 * minute}
	ctx, _ := within(m.t, patience)
	if answers, err := m.store.Renew(ctx, []tierlock.Hold{hold}); err != nil || answers[0].Status != want {
		m.t.Fatalf("renew: %v, %v, want %v", answers[0].Status, err, want)
	}
	look(m.t, m.store, hold, want)
}

// held has id hold the key, another not get it, and id give it back.
func (m *mover) held(id tierlock.RequestID) {
	m.t.Helper()
	another := tierlock.NewRequestID()
	if answer := m.claim(another, time.Second); answer.Status != tierlock.Held || answer.Holder != id.Fingerprint() {
		m.t.Fatalf("another: %v by %s, want held by %s", answer.Status, answer.Holder, id.Fingerprint())
	}
	m.renewed(another, tierlock.Held)
	m.give(another, tierlock.Held)
	m.renewed(id, tierlock.Mine)
	m.give(id, tierlock.Released)
}

// passed hands the lock over and gives it back.
func (m *mover) passed() {
	m.t.Helper()
	from, to := m.granted(), tierlock.NewRequestID()
	ctx, deadline := within(m.t, patience)
	answer, err := m.store.Pass(ctx, tierlock.Hold{Key: m.key, ID: from}, tierlock.Request{
		Hold: tierlock.Hold{Key: m.key, ID: to, TTL: minute}, NotAfter: deadline, Fenced: m.fenced, WaitTill: deadline,
	})
	if err != nil {
		m.t.Fatalf("hand-over: %v", err)
	}
	m.took(answer)
	m.held(to)
	m.give(from, tierlock.Gone)
}

// reasonOf is what err, a fault, says; empty for none.
func reasonOf(err error) tierlock.Reason {
	f, _ := errors.AsType[*tierlock.Fault](err)
	if f == nil {
		return ""
	}
	return f.Reason
}
