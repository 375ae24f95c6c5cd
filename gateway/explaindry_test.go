package gateway_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// published is a source that says one thing.
type published string

func (p published) Fetch(context.Context) ([]byte, error) { return []byte(p), nil }

// TestAnExplanationTellsWhatIsPublishedAndNotObeyed: a dry run, and a version for others.
func TestAnExplanationTellsWhatIsPublishedAndNotObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		for text, want := range map[string]string{
			"{version: 7, chains: {c: {mode: bypass, dry_run: true, until: " + until + ", reason: r, by: oncall}}}":                  "  dry run          bypass until ",
			"{version: 8, canary: {instances: [another]}, chains: {c: {mode: bypass, until: " + until + ", reason: r, by: oncall}}}": "  withheld         switch version 8, for a canary without this instance\n",
		} {
			g, err := gateway.New(gateway.Config{
				Chains: map[string]gateway.Policy{"c": weak()}, Stores: map[string]tierlock.Backend{"memory": gatewaytest.NewStore()},
				Audit: new(gatewaytest.Audit), Switch: published(text), Instance: "this",
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			key, _ := tierlock.ParseKey("biz:c:lock:a")
			x, err := g.Explain(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			var page bytes.Buffer
			if err := x.WriteText(&page); err != nil {
				t.Fatal(err)
			}
			if dry := strings.Contains(want, "dry"); !strings.Contains(page.String(), want) || (x.DryRun != nil) != dry || (x.Withheld == 8) == dry || x.Order != nil || x.Next.Tier != tierlock.Shared {
				t.Errorf("want %q in\n%s", want, &page)
			}
			if err := g.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}
