//go:build !nodemo

package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/switchcfg"
	"github.com/tierlock/tierlock/switchcfg/nacossource"
)

// operator pushes switch documents the way a person would: into the file, or into Nacos
// over its HTTP interface. What reaches the gateways goes through the product's own
// sources.
type operator struct {
	file   string
	nacos  string // empty: the file it is
	dataID string
}

// bypassUntil is what a person on call would write.
func bypassUntil(until time.Time) switchcfg.Directive {
	return switchcfg.Directive{Mode: tierlock.ModeBypass, Until: until, Reason: "Redis under DDoS", By: "demo"}
}

// push publishes doc.
func (o operator) push(ctx context.Context, doc switchcfg.Document) error {
	if o.nacos == "" {
		return switchcfg.WriteFile(o.file, doc)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: %d\nchains:\n", doc.Version)
	for name, d := range doc.Chains {
		fmt.Fprintf(&b, "  %s: {mode: %s, until: %s, reason: %q, by: %q}\n", name, d.Mode, d.Until.UTC().Format(time.RFC3339Nano), d.Reason, d.By)
	}
	return o.ask(ctx, http.MethodPost, url.Values{"content": {b.String()}, "type": {"yaml"}})
}

// forget takes the demo's document out of Nacos again.
func (o operator) forget(ctx context.Context) error {
	if o.nacos == "" {
		return nil
	}
	return o.ask(ctx, http.MethodDelete, url.Values{})
}

// ask sends one request about the demo's document to Nacos.
func (o operator) ask(ctx context.Context, method string, form url.Values) error {
	form.Set("dataId", o.dataID)
	form.Set("group", nacossource.DefaultGroup)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	at := "http://" + o.nacos + "/nacos/v1/cs/configs"
	body := strings.NewReader(form.Encode())
	if method == http.MethodDelete {
		at += "?" + form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("switch in nacos, %s: %w", method, err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 512))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("switch in nacos, %s: %s: %s", method, res.Status, text)
	}
	return nil
}
