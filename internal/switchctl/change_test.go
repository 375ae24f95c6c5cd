package switchctl_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/internal/switchctl"
	"github.com/tierlock/tierlock/switchcfg"
)

var now = time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)

func bypass(minutes int) switchcfg.Directive {
	return switchcfg.Directive{Mode: tierlock.ModeBypass, Until: now.Add(time.Duration(minutes) * time.Minute), Reason: "Redis under DDoS", By: "oncall"}
}

func document(version uint64, chains map[string]switchcfg.Directive) switchcfg.Document {
	return switchcfg.Document{Version: version, Chains: chains}
}

func TestNextKeepsWhatItWasNotAskedToChange(t *testing.T) {
	was := document(41, map[string]switchcfg.Directive{"coupon": bypass(10), "gift": bypass(20)})
	next, err := switchctl.Next(was, switchctl.Order{Chains: []string{"coupon"}, Directive: bypass(60)}, now)
	if err != nil {
		t.Fatal(err)
	}
	if next.Version != 42 || !next.Chains["coupon"].Until.Equal(now.Add(time.Hour)) || !next.Chains["gift"].Until.Equal(now.Add(20*time.Minute)) {
		t.Errorf("%+v", next)
	}
	if !was.Chains["coupon"].Until.Equal(now.Add(10 * time.Minute)) {
		t.Error("the document that was has changed")
	}
	ended, err := switchctl.Next(next, switchctl.Order{Chains: []string{"coupon"}, Directive: switchcfg.Directive{Mode: tierlock.ModeAuto}}, now)
	if err != nil || len(ended.Chains) != 1 || ended.Version != 43 {
		t.Errorf("%+v, %v, want the order on coupon gone", ended, err)
	}
}

func TestNextRefusesWhatEveryInstanceWould(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*switchcfg.Directive)
		field  string
	}{
		"without a reason": {func(d *switchcfg.Directive) { d.Reason = "" }, "chains.coupon.reason"},
		"by nobody":        {func(d *switchcfg.Directive) { d.By = " " }, "chains.coupon.by"},
		"for two days":     {func(d *switchcfg.Directive) { d.Until = now.Add(48 * time.Hour) }, "chains.coupon.until"},
	} {
		t.Run(name, func(t *testing.T) {
			d := bypass(10)
			c.change(&d)
			_, err := switchctl.Next(document(1, nil), switchctl.Order{Chains: []string{"coupon"}, Directive: d}, now)
			if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), c.field) {
				t.Errorf("error %v, want one that names %s", err, c.field)
			}
		})
	}
}

func TestExtendNeverShortens(t *testing.T) {
	was := document(7, map[string]switchcfg.Directive{"coupon": bypass(30)})
	next, err := switchctl.Extend(was, []string{"coupon"}, now.Add(time.Hour), now)
	if err != nil || next.Version != 8 || !next.Chains["coupon"].Until.Equal(now.Add(time.Hour)) || next.Chains["coupon"].Reason != "Redis under DDoS" {
		t.Fatalf("%+v, %v", next, err)
	}
	_, err = switchctl.Extend(was, []string{"coupon", "gift"}, now.Add(10*time.Minute), now)
	if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "earlier") || !strings.Contains(err.Error(), "gift") {
		t.Fatalf("error %v, want both faults", err)
	}
}

func TestCurrentLeavesOutWhatHasPassed(t *testing.T) {
	text := `{version: 5, chains: {coupon: {mode: bypass, until: 2026-11-29T16:59:00Z, reason: r, by: b}, gift: {mode: local, until: 2026-11-29T17:01:00Z, reason: r, by: b}}}`
	d, err := switchctl.Current([]byte(text), now)
	if err != nil || d.Version != 5 || len(d.Chains) != 1 || d.Chains["gift"].Mode != tierlock.ModeLocal {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err = switchctl.Current([]byte(" \n"), now); err != nil || d.Version != 0 {
		t.Fatalf("%+v, %v, want version 0", d, err)
	}
	if _, err = switchctl.Current([]byte("version: [1"), now); !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatalf("error %v, want ErrInvalid", err)
	}
}

func TestChangesShowWhatGoesAndWhatComes(t *testing.T) {
	was := document(1, map[string]switchcfg.Directive{"coupon": bypass(10), "gift": bypass(10), "order": {Mode: tierlock.ModeAuto}})
	share := uint8(10)
	canary := bypass(10)
	canary.Percent, canary.BreakGlass = &share, true
	is := document(2, map[string]switchcfg.Directive{"gift": bypass(10), "refund": canary})
	var lines []string
	for _, c := range switchctl.Changes(was, is) {
		lines = append(lines, c.Lines(now)...)
	}
	want := []string{
		"- coupon: bypass until 2026-11-29T17:10:00Z (10m0s), by oncall: Redis under DDoS",
		"+ coupon: auto",
		"- refund: auto",
		"+ refund: bypass for 10 % of the keys until 2026-11-29T17:10:00Z (10m0s), break_glass, by oncall: Redis under DDoS",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
