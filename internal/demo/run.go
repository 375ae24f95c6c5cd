//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
)

// Run is `tierlock demo`: it reads args, tells the story and prints what it came to. It
// returns the exit code: 0 when the report is ok, 1 when it is not or the story could not
// be told, 2 for bad flags. With --output json stdout gets one object and nothing else.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return run(ctx, args, stdout, stderr, Embedded(), Real())
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer, embedded, onServers Timetable) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, err)
		return 2
	}
	out, timetable := stdout, embedded
	if o.json {
		out = stderr
	}
	if o.redis != "" || o.kafka != "" || o.nacos != "" || o.dsn != "" {
		timetable = onServers
	}
	v := newView(out)
	r, err := tell(ctx, o, timetable, Seams{}, v, logger(stderr))
	if err != nil {
		fmt.Fprintln(stderr, "tierlock demo:", err)
	}
	if r == nil {
		return 1
	}
	v.summarize(r)
	if o.json {
		err = errors.Join(err, r.writeJSON(stdout))
	}
	if !r.OK || err != nil {
		return 1
	}
	return 0
}

// logger says nothing unless TIERLOCK_LOG is set to a level: the story is what there is to
// read.
func logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(os.Getenv("TIERLOCK_LOG"))) != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
