package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

// root is the repository, seen from test/, where the command runs.
const root = ".."

func main() {
	only := flag.String("only", "", "a pattern: the mutants whose name or file matches it")
	limit := flag.Duration("limit", 3*time.Minute, "how long the tests of one mutant may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := all(ctx, os.Stdout, *only, *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

// all runs the mutants that only names and tells w of each in a line; ok is false when one was
// not caught.
func all(ctx context.Context, w io.Writer, only string, limit time.Duration) (ok bool, err error) {
	name, err := regexp.Compile(only)
	if err != nil {
		return false, err
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return false, err
	}
	r := runner{root: top, limit: limit}
	var chosen []mutant
	for _, m := range table() {
		if name.MatchString(m.what) || name.MatchString(m.file) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("no mutant is named like %q", only)
	}
	if err := r.sound(ctx, chosen); err != nil {
		return false, err
	}
	counts := map[result]int{}
	for _, m := range chosen {
		began := time.Now()
		got, by, err := r.try(ctx, m)
		if err != nil {
			return false, err
		}
		counts[got]++
		fmt.Fprintf(w, "%-10s %5.1fs  %-24s %s  (%s)\n", got, time.Since(began).Seconds(), m.file, m.what, by)
	}
	fmt.Fprintf(w, "%d of %d mutants caught", counts[caught], len(chosen))
	for _, other := range []result{survived, leftOut, unsaid, unreadable, unbuilt, hung, panicked} {
		if n := counts[other]; n > 0 {
			fmt.Fprintf(w, ", %d %s", n, other)
		}
	}
	fmt.Fprintln(w)
	return counts[caught] == len(chosen), nil
}
