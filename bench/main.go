// Command bench measures what the pages claim, on servers that are named on its command
// line. Each figure is printed with how it was taken; nothing here decides a test.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
)

const usage = `usage: go run . VERB [flags]

  attempt   how late the answer comes while Redis hangs, beside the 200 ms that an attempt may take
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	verbs := map[string]func(context.Context, []string, io.Writer) error{"attempt": attempt}
	if len(args) == 0 || verbs[args[0]] == nil {
		fmt.Fprint(stderr, usage)
		return 2
	}
	if err := verbs[args[0]](ctx, args[1:], stdout); err != nil {
		fmt.Fprintln(stderr, "bench "+args[0]+":", err)
		return 1
	}
	return 0
}
