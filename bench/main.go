// Command bench measures what the pages claim, on a real Redis: one that it starts itself,
// or the one named by --redis. Each figure is printed with how it was taken; nothing here
// decides a test.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/tierlock/tierlock"
)

const usage = `usage: go run . VERB [flags]

  locks     lock and unlock beside the peers: pairs a second at 1, 64 and 512 goroutines
  handover  how soon the next of 2 and of 50 waiting processes has the lock, and what waiting costs
  hold      what 10,000 held locks cost: goroutines, memory, commands a second
  shards    one coarse lock, beside more and more shards of it, beside one key per id
  functions the same Lua called by EVALSHA and by FCALL
  decide    what a decision and a lock in the process cost, and the gateway over its store
  reconcile a made stream of events through the reconcile job, judged by what its generator knows
  audit     durable grants a second while a switch orders bypass, and the way of their events to Kafka
  attempt   how late the answer comes while Redis hangs, beside the 200 ms that an attempt may take

Every verb but audit, decide and reconcile takes --redis ADDR (it starts a redis-server of its own without); all take --output text|json,
--cpuprofile FILE and --memprofile FILE; go run . VERB -h lists the others.
`

// verb runs one measurement and prints it.
type verb func(ctx context.Context, args []string, stdout io.Writer) error

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	verbs := map[string]verb{"audit": record, "attempt": attempt, "decide": decide, "reconcile": reconcileStream, "locks": locks, "handover": handover, "hold": hold, "shards": shards, "functions": functions, workerVerb: worker}
	if len(args) == 0 || verbs[args[0]] == nil {
		fmt.Fprint(stderr, usage)
		return 2
	}
	switch err := verbs[args[0]](ctx, args[1:], stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, tierlock.ErrInvalid):
		fmt.Fprintln(stderr, "bench "+args[0]+":", err)
		return 2
	default:
		fmt.Fprintln(stderr, "bench "+args[0]+":", err)
		return 1
	}
}
