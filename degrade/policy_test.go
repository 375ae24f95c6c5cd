package degrade_test

import (
	"errors"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
)

func TestDefaultsAreValid(t *testing.T) {
	for _, p := range []degrade.Policy{degrade.Strong(), degrade.Weak()} {
		if err := p.Validate(); err != nil {
			t.Errorf("%v: %v", p.Class, err)
		}
	}
}

func TestValidateReportsEveryFaultAtOnce(t *testing.T) {
	nan := math.NaN()
	strong, weak, gone := degrade.Strong(), degrade.Weak(), degrade.Weak()
	gone.OnDown = degrade.FallbackCoalesce
	strong.OnDown, strong.OnSaturated, strong.Relaxed = degrade.FallbackLocal, degrade.FallbackFail, strong.Saturated
	weak.OnDown, weak.OnSaturated, weak.Saturated, weak.RampFrom, weak.Timeouts = 0, 9, nan, 1.01, 65
	for name, c := range map[string]struct {
		p    degrade.Policy
		want []string
	}{
		"zero": {degrade.Policy{}, []string{
			"class", "saturated_at", "relaxed_at", "saturate_in", "relax_in", "slow_timeouts",
			"fast_probes", "down_failures", "probe_lost", "ramp_from", "ramp_every",
		}},
		"weak-only fields on a strong chain": {strong, []string{"on_saturated", "on_down", "relaxed_at"}},
		"out of range":                       {weak, []string{"on_saturated", "on_down", "saturated_at", "relaxed_at", "slow_timeouts", "ramp_from"}},
		"nothing to coalesce before":         {gone, []string{"on_down"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.p.Validate()
			if !errors.Is(err, tierlock.ErrInvalid) {
				t.Fatalf("not an ErrInvalid: %v", err)
			}
			var fields []string
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				inv, ok := errors.AsType[*tierlock.InvalidError](e)
				if !ok || inv.Rule == "" {
					t.Fatalf("fault without field and rule: %v", e)
				}
				fields = append(fields, inv.Field)
			}
			if !slices.Equal(fields, c.want) {
				t.Errorf("faults %v, want %v", fields, c.want)
			}
		})
	}
}

func TestWordsOfFiles(t *testing.T) {
	for _, want := range []degrade.Class{degrade.ClassStrong, degrade.ClassWeak} {
		var got degrade.Class
		text, err := want.MarshalText()
		if err != nil || got.UnmarshalText(text) != nil || got != want {
			t.Errorf("class %v: %q, %v", want, text, err)
		}
	}
	for _, want := range []degrade.Fallback{degrade.FallbackLocal, degrade.FallbackCoalesce, degrade.FallbackOptimistic, degrade.FallbackFail} {
		var got degrade.Fallback
		text, err := want.MarshalText()
		if err != nil || got.UnmarshalText(text) != nil || got != want {
			t.Errorf("fallback %v: %q, %v", want, text, err)
		}
	}
	kept := degrade.FallbackLocal
	for _, bad := range []string{"", "bypass", "shared", "Local", strings.Repeat("x", 1000)} {
		err := kept.UnmarshalText([]byte(bad))
		if !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "want one of local, coalesce, optimistic, fail") || len(err.Error()) > 200 {
			t.Errorf("fallback %.10q: %v", bad, err)
		}
	}
	if kept != degrade.FallbackLocal {
		t.Errorf("a refused word changed the field to %v", kept)
	}
}

func TestEveryFieldHasANameInFiles(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[degrade.Policy]()) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !snake.MatchString(name) || seen[name] {
			t.Errorf("%s is called %q in files", f.Name, name)
		}
		seen[name] = true
	}
}

var snake = regexp.MustCompile("^[a-z]+(_[a-z]+)*$")

func TestNeedsBreakGlass(t *testing.T) {
	strong, guarded, weak := degrade.Strong(), degrade.Strong(), degrade.Weak()
	guarded.VersionGuard = true
	for mode, want := range map[tierlock.Mode][3]bool{
		tierlock.ModeAuto: {}, tierlock.ModeShared: {}, tierlock.ModeReject: {},
		tierlock.ModeOptimistic: {true, false, false}, tierlock.ModeLocal: {true, true, false}, tierlock.ModeBypass: {true, true, false},
	} {
		got := [3]bool{strong.NeedsBreakGlass(mode), guarded.NeedsBreakGlass(mode), weak.NeedsBreakGlass(mode)}
		if got != want {
			t.Errorf("%v: %v, want %v", mode, got, want)
		}
	}
}

func TestStateWords(t *testing.T) {
	for _, want := range []degrade.State{degrade.Normal, degrade.Slow, degrade.Saturated, degrade.Down, degrade.Recovering} {
		var got degrade.State
		text, err := want.MarshalText()
		if err != nil || got.UnmarshalText(text) != nil || got != want || want.String() != string(text) {
			t.Errorf("%v: %q, %v", want, text, err)
		}
	}
	if _, err := degrade.State(9).MarshalText(); !errors.Is(err, tierlock.ErrInvalid) {
		t.Errorf("state 9 marshals: %v", err)
	}
	if got := degrade.State(9).String(); got != "invalid" {
		t.Errorf("state 9 is called %q", got)
	}
}
