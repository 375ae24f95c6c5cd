package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// explainTimeout bounds the whole question: the daemon asks its store within an attempt.
const explainTimeout = 5 * time.Second

type explainFlags struct {
	fs     *flag.FlagSet
	admin  string
	format *string
}

func (p Process) explainFlags() *explainFlags {
	f := &explainFlags{fs: p.flags("explain", "explain [--admin HOST:PORT] [--output json] KEY\n\nA whole key is wanted, as biz:order:lock:10086.\n")}
	f.fs.StringVar(&f.admin, "admin", defaultAdmin, "listen.admin of the daemon, or a `URL` where a program mounts the handler")
	f.format = output(f.fs)
	return f
}

// Explain asks a running daemon what a new request for a key would meet, and why.
func (p Process) Explain(ctx context.Context, args []string) int {
	f := p.explainFlags()
	if code, ok := p.parse(f.fs, args, len(args)); !ok {
		return code
	}
	if f.fs.NArg() == 0 {
		return p.misused(f.fs, "want a KEY")
	}
	word := f.fs.Arg(0)
	if code, ok := p.parse(f.fs, f.fs.Args()[1:], 0); !ok { // flags may stand behind the key, too
		return code
	}
	key, err := tierlock.ParseKey(word)
	if err != nil {
		return p.fail(*f.format, err)
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	text, err := askToExplain(ctx, pageURL(f.admin, "/explain"), key)
	if err != nil {
		return p.fail(*f.format, unreached(err, "--admin takes its listen.admin"))
	}
	if *f.format == "json" {
		_, _ = p.Stdout.Write(text)
		return ExitOK
	}
	var x gateway.Explanation
	if err := json.Unmarshal(text, &x); err != nil {
		return p.fail(*f.format, fmt.Errorf("%s answers with something else: %w", f.admin, err))
	}
	_ = x.WriteText(p.Stdout)
	return ExitOK
}

// askToExplain posts the key. What the daemon refuses comes back as a refused input.
func askToExplain(ctx context.Context, page string, key tierlock.Key) ([]byte, error) {
	body, err := json.Marshal(map[string]tierlock.Key{"key": key})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, page, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode == http.StatusOK {
		return text, err
	}
	var said struct{ Error, Field, Value, Rule string }
	if resp.StatusCode == http.StatusBadRequest && json.Unmarshal(text, &said) == nil && said.Field != "" {
		return nil, tierlock.Invalid(said.Field, said.Value, said.Rule)
	}
	return nil, refused(page, resp.Status, text)
}
