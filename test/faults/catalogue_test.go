package faults

import "testing"

// row is one fault of the catalogue, and what a caller must get.
type row struct {
	id, fault, expected string
	test                func(*testing.T) // nil: not run here
	when                when
}

// when says in which runs a test takes part.
type when uint8

const (
	beside when = iota // in every run, beside others
	alone              // in every run, by itself: it changes this process's environment
	soaked             // with TIERLOCK_SOAK only, beside others
)

// Why a row has no test here.
const (
	elsewhere = "no fault of the lock: "
	unbuilt   = "not built yet"
)

// catalogue is every fault by id: R of Redis and the way to it, C of the client's process,
// N of the switch, K of the trail, Z and S of other stores, D of the daemon, X of several.
var catalogue = []row{
	{id: "R1", fault: "replies 300 ms late", expected: "optimistic within the attempt, never local; nothing left in the store", test: slowReplies},
	{id: "R2", fault: "server frozen", expected: "weak local in < 5 s; after it thaws nothing left, connections bounded", test: frozen},
	{id: "R3", fault: "server killed", expected: "weak local in < 1 s, then answers in about 1 ms; one probe at a time", test: killed},
	{id: "R4", fault: "server restarted without its memory", expected: "two holders, both in the trail; the later token is greater, the earlier one refused by the guard", test: restartedEmpty},
	{id: "R5", fault: "failover to a replica without the lock", expected: "two holders; the guard refuses the earlier token", test: failoverLosesTheLock},
	{id: "R6", fault: "failover to the replica that had not acknowledged", expected: "as R5, though another replica had the lock", test: acknowledgedLockIsLost},
	{id: "R7", fault: "Sentinel failover, the old master wakes", expected: "the promoted master serves in < 5 s and is never left; of two holders the resource lets in one", test: sentinelWakesTheOld},
	{id: "R8", fault: "Sentinel failover by hand under load", expected: "served again by itself; nobody is told that he holds after he was told of the loss", test: sentinelFailsOverByHand},
	{id: "R9", fault: "a held lock is evicted", expected: "renew says lost, its context ends", test: evicted},
	{id: "R10", fault: "out of memory, noeviction", expected: "acquire system_error; renew and unlock work", test: outOfMemory},
	{id: "R11", fault: "the server was made a replica", expected: "system_error, never held; served when it is a master again", test: readOnly},
	{id: "R12", fault: "MOVED", expected: "followed to the node that has the slot, no fault of the store", test: moved},
	{id: "R13", fault: "ASK, TRYAGAIN while a slot moves", expected: "granted or refused inside the attempt, exclusive all the while", test: slotMoves},
	{id: "R14", fault: "a key on both sides of a moving slot", expected: "held, kept and given back, and granted again with a higher token, while the slot stands half moved", test: keyOnBothSides},
	{id: "R15", fault: "one master of a Cluster gone", expected: "its keys step down, those of the other masters stay shared", test: oneMasterGone},
	{id: "R16", fault: "LOADING", expected: "down at the first: strong system_error, weak local; comes back by itself", test: loading},
	{id: "R17", fault: "MASTERDOWN", expected: "as R16", test: masterDown},
	{id: "R18", fault: "scripts forgotten", expected: "sent again inside the same attempt", test: forgottenScripts},
	{id: "R19", fault: "Functions missing on a server", expected: "the script is sent inside the same attempt; the log and the list of libraries tell", test: missingFunctions},
	{id: "R20", fault: "another's script runs on and on", expected: "system_error that names SCRIPT KILL; served after it", test: busy},
	{id: "R21", fault: "server clock 60 s ahead", expected: "the early loss is told at the next renewal; the guard refuses the earlier token", test: clockStepsForward, when: alone},
	{id: "R22", fault: "server clock 1 h back", expected: "held for the hour, told as remaining; freed by hand, the next token is greater", test: clockStepsBack, when: alone},
	{id: "R23", fault: "promoted replica with its clock ahead", expected: "as R21", test: replicaClockAhead, when: alone},
	{id: "R24", fault: "too few replicas", expected: "acquire, renew and unlock refused; the lock ends at V; given back afterwards", test: tooFewReplicas},
	{id: "R25", fault: "snapshots fail", expected: "as R24", test: snapshotsFail},
	{id: "R26", fault: "a command denied to our user", expected: "system_error whose cause names the command and no key", test: commandDenied},
	{id: "R27", fault: "password rotated", expected: "standing connections serve, new ones are refused, none of the secrets is told", test: passwordRotated},
	{id: "R28", fault: "no room for another client", expected: "timeout or system_error; two connections an ask at most", test: noRoomForClients},
	{id: "R29", fault: "connections closed by the server", expected: "no caller sees it", test: closedByTheServer},
	{id: "R30", fault: "packets vanish", expected: "answers in time; the connections are thrown away", test: blackHole},
	{id: "R31", fault: "server replaced behind half-open connections", expected: "as R30", test: halfOpen},
	{id: "R32", fault: "reset in the reply", expected: "not answered; the same request asked again finds its own lock", test: resetInTheReply},
	{id: "R33", fault: "done, and the reply lost", expected: "as R32: no deadlock with itself", test: lostReply},
	{id: "R34", fault: "delivered after its caller gave up", expected: "refused by the server", test: deliveredTooLate},
	{id: "R35", fault: "writes paused for 500 ms", expected: "optimistic; nothing left", test: paused},
	{id: "R36", fault: "each fsync of the AOF takes 500 ms", expected: "optimistic; nothing left", test: slowDisk, when: alone},
	{id: "R37", fault: "slow replica under WAIT", expected: unbuilt},
	{id: "R38", fault: "replies around the moment of giving up", expected: "no reply is taken for another's", test: repliesOutOfStep},
	{id: "R39", fault: "the key is a set, or has no ttl", expected: "wrong_type, never held; the renewal brings the ttl back", test: noLock},
	{id: "R40", fault: "quorum: two of five dead, one empty", expected: unbuilt},
	{id: "C1", fault: "process stopped for twice its ttl", expected: "its first call says lost, the guard refuses it, the new holder is untouched", test: stoppedBeyondItsLock},
	{id: "C2", fault: "process hardly gets to run", expected: "nobody else is granted before it had to stop", test: starved, when: soaked},
	{id: "C3", fault: "machine suspended", expected: "not promised: the monotonic clock stands still"},
	{id: "C4", fault: "wall clock steps, monotonic does not", expected: "not injected: no lease is computed from the wall clock"},
	{id: "C5", fault: "callers leave at each wait", expected: "one outcome each; no lock, connection or doubt left", test: callersLeave},
	{id: "C6", fault: "holder killed", expected: "free after its ttl and not before; a restart adopts nothing", test: killedHolder},
	{id: "C7", fault: "no file descriptor left", expected: "timeout that names it; served when there are some", test: noFilesLeft},
	{id: "C8", fault: "disk full", expected: elsewhere + "the trail's"},
	{id: "C9", fault: "fsync fails once", expected: elsewhere + "the trail's"},
	{id: "C10", fault: "last record torn", expected: elsewhere + "the trail's"},
	{id: "C11", fault: "pool exhausted", expected: "local after saturate_in and not by one spike", test: poolExhausted},
	{id: "C12", fault: "renewal meets unlock", expected: "no renewal after the release, no key comes back", test: renewalMeetsUnlock},
	{id: "C13", fault: "unlocked twice, from another goroutine", expected: "the second does nothing; the next owner is untouched", test: unlockedTwice},
	{id: "C14", fault: "locked again after a loss", expected: "a new token; the lost one touches nothing", test: lockedAgainAfterALoss},
	{id: "C15", fault: "process an hour off its server", expected: "ttl and end unchanged; what is late is still refused", test: clockIsOff, when: alone},
	{id: "C16", fault: "keys without end", expected: "the local table refuses; no holder is pushed out", test: keysWithoutEnd},
	{id: "N1", fault: "down at the start", expected: elsewhere + "switch"},
	{id: "N2", fault: "stale copy says bypass", expected: elsewhere + "switch"},
	{id: "N3", fault: "broken document", expected: elsewhere + "switch"},
	{id: "N4", fault: "empty push, deletion", expected: elsewhere + "switch"},
	{id: "N5", fault: "two servers disagree", expected: elsewhere + "switch"},
	{id: "N6", fault: "ten changes a second", expected: elsewhere + "switch"},
	{id: "N7", fault: "server restarted, listener gone", expected: elsewhere + "switch"},
	{id: "N8", fault: "credentials refused", expected: elsewhere + "switch"},
	{id: "N9", fault: "forged push", expected: elsewhere + "switch"},
	{id: "N10", fault: "order ends while cut off", expected: elsewhere + "switch"},
	{id: "K1", fault: "broker down for 10 min", expected: elsewhere + "trail and reconcile"},
	{id: "K2", fault: "acks 5 s late", expected: elsewhere + "trail and reconcile"},
	{id: "K3", fault: "leader changes under a batch", expected: elsewhere + "trail and reconcile"},
	{id: "K4", fault: "too few in-sync replicas", expected: elsewhere + "trail and reconcile"},
	{id: "K5", fault: "message too large", expected: elsewhere + "trail and reconcile"},
	{id: "K6", fault: "SASL, TLS or ACL refused", expected: elsewhere + "trail and reconcile"},
	{id: "K7", fault: "topic deleted", expected: elsewhere + "trail and reconcile"},
	{id: "K8", fault: "killed between fsync and send", expected: elsewhere + "trail and reconcile"},
	{id: "K9", fault: "success after the deadline", expected: elsewhere + "trail and reconcile"},
	{id: "K10", fault: "worker killed, rebalanced", expected: elsewhere + "trail and reconcile"},
	{id: "K11", fault: "events late or out of order", expected: elsewhere + "trail and reconcile"},
	{id: "K12", fault: "producer without acks", expected: elsewhere + "trail and reconcile"},
	{id: "Z1", fault: "session expired while holding", expected: elsewhere + "another store"},
	{id: "Z2", fault: "disconnected, not expired", expected: elsewhere + "another store"},
	{id: "Z3", fault: "created, reply lost", expected: elsewhere + "another store"},
	{id: "Z4", fault: "ZooKeeper leader changes", expected: elsewhere + "another store"},
	{id: "Z5", fault: "etcd lease gone while waiting", expected: elsewhere + "another store"},
	{id: "Z6", fault: "etcd leader stuck", expected: elsewhere + "another store"},
	{id: "Z7", fault: "compaction under a watch", expected: elsewhere + "another store"},
	{id: "Z8", fault: "etcd out of space", expected: elsewhere + "another store"},
	{id: "S1", fault: "SQL pool full", expected: elsewhere + "another store"},
	{id: "S2", fault: "row locked by another transaction", expected: elsewhere + "another store"},
	{id: "S3", fault: "deadlock victim", expected: elsewhere + "another store"},
	{id: "S4", fault: "connection dies while holding", expected: elsewhere + "another store"},
	{id: "S5", fault: "failover to a lagging standby", expected: elsewhere + "another store"},
	{id: "S6", fault: "transaction pooler between", expected: elsewhere + "another store"},
	{id: "S7", fault: "lock name over 64 bytes", expected: elsewhere + "another store"},
	{id: "D1", fault: "slow headers, slow body", expected: elsewhere + "daemon"},
	{id: "D2", fault: "oversized and malformed input", expected: elsewhere + "daemon"},
	{id: "D3", fault: "100,000 waiters on one key", expected: elsewhere + "daemon"},
	{id: "D4", fault: "one tenant floods keys", expected: elsewhere + "daemon"},
	{id: "D5", fault: "client gone", expected: elsewhere + "daemon"},
	{id: "D6", fault: "daemon restarted while holding", expected: elsewhere + "daemon"},
	{id: "D7", fault: "wrong credentials", expected: elsewhere + "daemon"},
	{id: "D8", fault: "socket file race", expected: elsewhere + "daemon"},
	{id: "D9", fault: "certificate rotated, expired", expected: elsewhere + "daemon"},
	{id: "D10", fault: "metrics flooded with keys", expected: elsewhere + "daemon"},
	{id: "D11", fault: "handler or hook panics", expected: elsewhere + "daemon"},
	{id: "D12", fault: "shutdown while stepped down", expected: elsewhere + "daemon"},
	{id: "X1", fault: "flip back over degraded holds", expected: elsewhere + "several parts at once"},
	{id: "X2", fault: "one of three cut off", expected: elsewhere + "several parts at once"},
	{id: "X3", fault: "breaker at its threshold", expected: elsewhere + "several parts at once"},
	{id: "X4", fault: "Redis, Kafka and Nacos all down", expected: elsewhere + "several parts at once"},
	{id: "X5", fault: "unlock after the tier changed", expected: elsewhere + "several parts at once"},
	{id: "X6", fault: "moved to another store", expected: elsewhere + "several parts at once"},
	{id: "X7", fault: "random schedule", expected: elsewhere + "several parts at once"},
}
