package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/api"
)

// healthTimeout bounds the question; it is asked by container platforms every few seconds.
const healthTimeout = 2 * time.Second

func (p Process) healthFlags() (fs *flag.FlagSet, format *string) {
	fs = p.flags("health", "health [--output json] [URL]\n\nURL is listen.admin of the daemon, or reconcile.listen of the job: host:port, or a whole\nURL. Default "+defaultAdmin+".\n")
	return fs, output(fs)
}

// pageURL completes what a person types: 127.0.0.1:7071 is http://127.0.0.1:7071/healthz where
// that is the page.
func pageURL(typed, page string) string {
	if !strings.Contains(typed, "://") {
		typed = "http://" + typed
	}
	if u, err := url.Parse(typed); err == nil && (u.Path == "" || u.Path == "/") {
		u.Path = page
		return u.String()
	}
	return typed
}

// Health asks a running daemon how it is. A degraded daemon is healthy: exit code 0.
func (p Process) Health(ctx context.Context, args []string) int {
	fs, format := p.healthFlags()
	if code, ok := p.parse(fs, args, 1); !ok {
		return code
	}
	page := pageURL(or(fs.Arg(0), defaultAdmin), "/healthz")
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	text, err := get(ctx, page)
	if err != nil {
		return p.fail(*format, unreached(err, "give its listen.admin, or the job's reconcile.listen, as URL"))
	}
	if *format == "json" {
		_, _ = p.Stdout.Write(text)
		return ExitOK
	}
	var h struct {
		api.Health
		Details health `json:"details"`
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return p.fail(*format, fmt.Errorf("%s answers with something else: %w", page, err))
	}
	fmt.Fprintf(p.Stdout, "%s (tierlock %s, switch version %d, policies %s)\n", h.Status, h.Version, h.Details.Switch, h.Details.PolicyHash)
	for _, line := range h.Details.lines() {
		fmt.Fprintln(p.Stdout, line)
	}
	for _, c := range h.Details.Chains {
		fmt.Fprintln(p.Stdout, "  "+c.line())
	}
	return ExitOK
}

// line tells where the chain stands and why.
func (c *chainHealth) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %-10s store %s", c.Chain, c.Tier, c.State)
	if c.Why != "" && c.Why != string(tierlock.ReasonForced) { // of the order, which follows; since is of the store
		fmt.Fprintf(&b, ": %s", c.Why)
	}
	if !c.Since.IsZero() {
		fmt.Fprintf(&b, " since %s", c.Since.Format(time.TimeOnly))
	}
	if o := c.Order; o != nil {
		fmt.Fprintf(&b, ", ordered %s until %s by %s: %s", o.Mode, o.Until.Format(time.TimeOnly), o.By, o.Reason)
	}
	if r := c.DryRun; r != nil {
		b.WriteString(", " + r.line())
	}
	return b.String()
}

// unreached adds to a connection that nobody took what to look at.
func unreached(err error, where string) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: does it run, and there? %s", err, where)
	}
	return err
}

func get(ctx context.Context, page string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = refused(page, resp.Status, text)
	}
	return text, err
}

// refused is an answer that is not the page, with what it says of the reason: whoever takes
// the data port for the admin port is told which is which.
func refused(page, status string, text []byte) error {
	var said struct{ Error, Rule string }
	if json.Unmarshal(text, &said) == nil && said.Error != "" && said.Rule != "" {
		return fmt.Errorf("%s answers %s: %s", page, status, said.Rule)
	}
	return fmt.Errorf("%s answers %s", page, status)
}
