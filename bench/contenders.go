package main

import "context"

// peerPool is the connections of a go-redis client here, as many as our store has.
const peerPool = 64

// contender is one way to lock, and how it is set up.
type contender struct {
	name  string
	fence bool
	peer  bool // another library, as people use it
	setup string
	open  func(ctx context.Context, addr string) (locker, error)
}

// The names that ratios are made of.
const (
	oursName       = "tierlock"
	unrecordedName = "tierlock unrecorded"
	storeName      = "tierlock store"
	bareName       = "bare go-redis"
)

// contenders are all that locks lets run.
func contenders() []contender {
	const (
		pooled = "go-redis client with a pool of 64"
		auto   = "over go-redis AutoPipeline() with its defaults"
	)
	var (
		recordedSetup   = "gateway with a strong chain, 1 s for an attempt; every hold and its end go to a spool on the disk"
		unrecordedSetup = "gateway with a strong chain, 1 s for an attempt, audit: off"
		storeSetup      = "redisstore with its defaults, no gateway"
	)
	return []contender{
		{name: oursName, setup: recordedSetup, open: openPair(true, false)},
		{name: oursName, fence: true, setup: recordedSetup, open: openPair(true, true)},
		{name: unrecordedName, setup: unrecordedSetup, open: openPair(false, false)},
		{name: unrecordedName, fence: true, setup: unrecordedSetup, open: openPair(false, true)},
		{name: storeName, setup: storeSetup, open: openStore(false)},
		{name: storeName, fence: true, setup: storeSetup, open: openStore(true)},
		{name: bareName, setup: "SET NX PX and a compare-and-delete by EVALSHA, " + pooled, open: openBare},
		{name: "redsync", peer: true, setup: pooled + ", one node", open: openRedsync},
		{name: "redislock", peer: true, setup: pooled, open: openRedislock},
		{name: "rueidislock", peer: true, setup: "a majority of one key, NOLOOP, 1 s for an acquire", open: openRueidis},
		{name: "bare go-redis autopipeline", setup: "the two commands " + auto, open: openBarePiped},
		{name: "redsync autopipeline", setup: auto, open: openRedsyncPiped},
		{name: "redislock autopipeline", setup: auto, open: openRedislockPiped},
	}
}
