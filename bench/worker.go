package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tierlock/tierlock"
)

// workerVerb is how handover starts itself again. The process says "ready" once it is
// connected. Each line that it reads then says for how many nanoseconds to hold the lock once
// it has it, and is answered by a turn as JSON; it ends with its input.
const workerVerb = "worker"

// turn is one lock of one process, in nanoseconds of the machine's monotonic clock, which
// all processes share.
type turn struct {
	Asked   int64 `json:"asked"`
	Granted int64 `json:"granted"`
	Given   int64 `json:"given"` // when unlock was called
}

func machineTime() (int64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano(), err
}

func worker(ctx context.Context, args []string, stdout io.Writer) (err error) {
	s := newSession(workerVerb, stdout)
	impl := s.flags.String("impl", oursName, "who waits")
	key := s.flags.String("key", "one", "what they all want")
	all := waitings()
	var at int
	check := func() error {
		if at = slices.IndexFunc(all, func(w waiting) bool { return w.name == *impl }); at < 0 {
			return tierlock.Invalid("impl", *impl, "is the name of none that waits")
		}
		return nil
	}
	if err := s.start(ctx, args, check); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	w, err := all[at].open(ctx, s.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	// Connects on a key that nobody wants.
	give, err := w.wait(ctx, fmt.Sprintf("%s.%d", *key, os.Getpid()))
	if err != nil {
		return err
	}
	if err := give(ctx); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		work, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return tierlock.Invalid("line", lines.Text(), "want nanoseconds")
		}
		its, err := takeTurn(ctx, w, *key, time.Duration(work))
		if err != nil {
			return err
		}
		if err := json.NewEncoder(stdout).Encode(its); err != nil {
			return err
		}
	}
	return nil
}

// takeTurn waits, works and gives back.
func takeTurn(ctx context.Context, w waiter, key string, work time.Duration) (t turn, err error) {
	if t.Asked, err = machineTime(); err != nil {
		return t, err
	}
	give, err := w.wait(ctx, key)
	if err != nil {
		return t, err
	}
	if t.Granted, err = machineTime(); err != nil {
		return t, err
	}
	<-time.After(work)
	if t.Given, err = machineTime(); err != nil {
		return t, err
	}
	return t, give(ctx)
}
