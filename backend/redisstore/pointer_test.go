package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/backend/redisstore"
)

func TestClusterOfOneServesInProcess(t *testing.T) {
	store := open(t, redisstore.Config{Addrs: []string{miniredis.RunT(t).Addr()}, Cluster: true})
	hold := newHold(t, minute)
	take(t, store, hold, tierlock.Granted)
	if name := store.Traits().Sharder.Target(hold.Key); name != "shard-1" {
		t.Errorf("target %q", name)
	}
	ctx, _ := within(t, time.Second)
	if err := store.Probe(ctx, "shard-1"); err != nil {
		t.Error(err)
	}
	if err := store.Probe(ctx, "a shard that is no more"); err != nil {
		t.Error(err)
	}
	give(t, store, hold, tierlock.Released)
}

func TestMovedIsFollowedOnce(t *testing.T) {
	there := newFakeShard(t, grant)
	here := newFakeShard(t, refuse("MOVED 1 %s", there.addr))
	store := open(t, redisstore.Config{Addrs: []string{here.addr}, Cluster: true})
	take(t, store, newHold(t, minute), tierlock.Granted)
	if here.scripts.Load() != 1 || there.scripts.Load() != 1 || there.asked.Load() != 0 {
		t.Errorf("asked %d times here, %d there, %d with ASKING", here.scripts.Load(), there.scripts.Load(), there.asked.Load())
	}
	eventually(t, "the map is fetched again", func() bool { return here.maps.Load() > 1 })
}

// ASK is for one question: the next one asks the owner again, and what goes to the other
// server goes right behind an ASKING.
func TestAskIsFollowedForOneQuestion(t *testing.T) {
	there := newFakeShard(t, grant)
	here := newFakeShard(t, refuse("ASK 1 %s", there.addr))
	store := open(t, redisstore.Config{Addrs: []string{here.addr}, Cluster: true})
	for n := int64(1); n <= 3; n++ {
		take(t, store, newHold(t, minute), tierlock.Granted)
		if here.scripts.Load() != n || there.scripts.Load() != n || there.asked.Load() != n {
			t.Errorf("asked %d times here, %d there, %d with ASKING, want %d each", here.scripts.Load(), there.scripts.Load(), there.asked.Load(), n)
		}
	}
}

// Servers that point at each other, or say try again, are asked until a part of the time
// is left; nothing is in doubt then, and the store does not count as down.
func TestUnsettledClusterIsNoAnswerInTime(t *testing.T) {
	var there string
	for name, script := range map[string]said{
		"try again":                refuse("TRYAGAIN Multiple keys request during rehashing of slot"),
		"pointing at each other":   func(c *server.Peer, _ []string) { c.WriteError("MOVED 1 " + there) },
		"sent on, and tried again": func(c *server.Peer, _ []string) { c.WriteError("ASK 1 " + there) },
	} {
		t.Run(name, func(t *testing.T) {
			here := newFakeShard(t, script)
			there = newFakeShard(t, func(c *server.Peer, args []string) {
				if name == "pointing at each other" {
					refuse("MOVED 1 %s", here.addr)(c, args)
				} else {
					refuse("TRYAGAIN")(c, args)
				}
			}).addr
			store := open(t, redisstore.Config{Addrs: []string{here.addr}, Cluster: true})
			began := time.Now()
			_, err := try(t, store, newHold(t, minute))
			wantFault(t, err, tierlock.ReasonAttempt, false)
			if took := time.Since(began); took > attempt+grace {
				t.Errorf("returned after %v", took)
			}
			if n := here.scripts.Load(); n < 2 || n > 40 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func TestTryAgainIsTriedUntilTheKeysHaveMoved(t *testing.T) {
	n := 0
	here := newFakeShard(t, func(c *server.Peer, args []string) {
		if n++; n < 4 {
			c.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
			return
		}
		grant(c, args)
	})
	take(t, open(t, redisstore.Config{Addrs: []string{here.addr}, Cluster: true}), newHold(t, minute), tierlock.Granted)
}

func TestClusterThatNobodyTellsOfIsDown(t *testing.T) {
	dead := free(t)
	store := open(t, redisstore.Config{Addrs: []string{dead}, Cluster: true})
	_, err := try(t, store, newHold(t, minute))
	wantFault(t, err, tierlock.ReasonDown, false)
	ctx, _ := within(t, time.Second)
	wantFault(t, store.Probe(ctx, ""), tierlock.ReasonDown, false)

	alone := miniredis.NewMiniRedis()
	if err := alone.StartAddr(dead); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(alone.Close)
	take(t, store, newHold(t, minute), tierlock.Granted)
}

func TestClosedStoreAnswersWithAFault(t *testing.T) {
	for name, cfg := range map[string]redisstore.Config{
		"never asked": {Addrs: []string{free(t)}, Cluster: true},
		"a Cluster":   {Addrs: []string{newFakeShard(t, grant).addr}, Cluster: true},
		"sentinels":   {Addrs: []string{newFakeSentinel(t, miniredis.RunT(t).Addr(), 1).addr}, Sentinel: &redisstore.SentinelConfig{Master: "main"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t, cfg)
			if name != "never asked" {
				take(t, store, newHold(t, minute), tierlock.Granted)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			_, err := try(t, store, newHold(t, minute))
			wantFault(t, err, tierlock.ReasonBroken, false)
		})
	}
}

// Renewals of one slot share a call, and while some of their keys are on their way that one
// is refused. Then each goes alone, all in the same time.
func TestRenewalsOfASlotThatMovesGoAlone(t *testing.T) {
	here := newFakeShard(t, func(c *server.Peer, args []string) {
		if keys, _ := strconv.Atoi(args[1]); keys >= 3 { // of three holds: one has fewer
			c.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
			return
		}
		c.WriteBulk("0 2:60000:1:0:") // mine, for a minute
	})
	store := open(t, redisstore.Config{Addrs: []string{here.addr}, Cluster: true})
	var holds []tierlock.Hold
	for slot := -1; len(holds) < 3; {
		hold := newHold(t, minute)
		if at := redisstore.SlotOf(hold.Key); slot < 0 || at == slot {
			slot = at
			holds = append(holds, hold)
		}
	}
	ctx, _ := within(t, 5*time.Second)
	answers, err := store.Renew(ctx, holds)
	if err != nil || answers[0].Status != tierlock.Mine || answers[1].Status != tierlock.Mine || answers[2].Status != tierlock.Mine {
		t.Errorf("%+v, %v", answers, err)
	}
	if n := here.scripts.Load(); n != 4 {
		t.Errorf("%d calls, want one for all and one for each", n)
	}
}
