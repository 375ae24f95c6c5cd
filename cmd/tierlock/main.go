// Command tierlock is the lock daemon, the job that reconciles, and the demo.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tierlock/tierlock/internal/daemon"
	"github.com/tierlock/tierlock/internal/demo"
)

// version is stamped by the image's build; otherwise the go command's own stamp is shown.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	p := daemon.Process{Version: version, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, daemon.Usage)
		return daemon.ExitUsage
	}
	switch name, rest := args[0], args[1:]; name {
	case "demo":
		return demo.Run(ctx, rest, os.Stdout, os.Stderr)
	case "serve":
		return p.Serve(ctx, rest)
	case "reconcile":
		return p.Reconcile(ctx, rest)
	case "repairs":
		return p.Repairs(ctx, rest)
	case "report":
		return p.Report(ctx, rest)
	case "why":
		return p.Why(ctx, rest)
	case "doctor":
		return p.Doctor(ctx, rest)
	case "health":
		return p.Health(ctx, rest)
	case "explain":
		return p.Explain(ctx, rest)
	case "switch":
		return p.Switch(ctx, rest)
	case "simulate":
		return p.Simulate(ctx, rest)
	case "functions":
		return p.Functions(ctx, rest)
	case "spool":
		return p.Spool(ctx, rest)
	case "version", "-version", "--version":
		return p.ShowVersion(rest)
	case "help", "-h", "-help", "--help":
		if len(rest) > 0 && rest[0] == "demo" {
			return demo.Run(ctx, []string{"-h"}, os.Stdout, os.Stdout)
		}
		return p.Help(rest)
	default:
		return p.NoCommand(name)
	}
}
