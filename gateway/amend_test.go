package gateway_test

import (
	"encoding"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

// policiesOf is a document that changes policies and orders nothing.
func policiesOf(version uint64, policies map[string]switchcfg.Values) switchcfg.Document {
	return switchcfg.Document{Version: version, Chains: map[string]switchcfg.Directive{}, Policies: policies}
}

func TestAPolicyChangesWhileTheChainServes(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		before := k.PolicyHash()
		held := k.must("a")
		waited := func() time.Duration {
			began := time.Now()
			if _, err := k.Lock(t.Context(), "a"); !errors.Is(err, tierlock.ErrHeld) {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		if w := waited(); w > 310*time.Millisecond {
			t.Errorf("waited %v as configured", w)
		}
		if err := k.Apply(policiesOf(1, map[string]switchcfg.Values{
			"c":      {"wait": "1s", "on_down": "fail", "local": map[string]any{"permits": 1}},
			"others": {"wait": "no duration"}, // not ours
		})); err != nil {
			t.Fatal(err)
		}
		if w := waited(); w < 900*time.Millisecond {
			t.Errorf("waited %v, want a second", w)
		}
		if p := k.Policy(); p.Wait != time.Second || p.Local.Permits != 1 || p.TTL != time.Minute {
			t.Errorf("%+v", p)
		}
		if hash := k.PolicyHash(); hash == before || k.Status().PolicyHash != hash {
			t.Errorf("hash %s, was %s", hash, before)
		}
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		k.takeDown()
		if tier, v := k.ask("b"); tier != 0 || v.Outcome != tierlock.SystemError {
			t.Errorf("down: tier %v, %v, want it to fail", tier, v.Outcome)
		}
		if err := k.Apply(policiesOf(2, nil)); err != nil {
			t.Fatal(err)
		}
		if hash := k.PolicyHash(); hash != before {
			t.Errorf("hash %s, want %s as configured", hash, before)
		}
		if tier, _ := k.ask("b"); tier != tierlock.Local {
			t.Errorf("down, as configured: tier %v", tier)
		}
	})
}

func TestPermitsChangeWhileTheStoreIsDown(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.takeDown()
		if err := k.Apply(policiesOf(1, map[string]switchcfg.Values{"c": {"local": map[string]any{"permits": 1}}})); err != nil {
			t.Fatal(err)
		}
		l := k.must("a")
		if _, err := k.TryLock(t.Context(), "a"); !errors.Is(err, tierlock.ErrHeld) {
			t.Errorf("a second holder: %v", err)
		}
		_ = l.Unlock(t.Context())
	})
}

func TestAPolicyThatIsWrongRefusesTheWholeDocument(t *testing.T) {
	for name, c := range map[string]struct {
		values switchcfg.Values
		field  string
		rule   string
	}{
		"out of range":                 {switchcfg.Values{"wait": "3s"}, "policies.c.wait", "want 0 to 2s"},
		"no unit":                      {switchcfg.Values{"wait": 300}, "policies.c.wait", "with its unit"},
		"a typing error":               {switchcfg.Values{"wiat": "1s"}, "policies.c.wiat", "is no field of a policy: want one of wait,"},
		"a typing error below":         {switchcfg.Values{"local": map[string]any{"permit": 5}}, "policies.c.local.permit", "is no field of a policy: want one of wait,"},
		"below what has nothing below": {switchcfg.Values{"wait": map[string]any{"most": "1s"}}, "policies.c.wait.most", "is no field of a policy: "},
		"what has fields":              {switchcfg.Values{"local": 5}, "policies.c.local", "has fields and is none itself: want one of wait,"},
		"the class":                    {switchcfg.Values{"class": "strong"}, "policies.c.class", "cannot change while the process runs: want one of wait,"},
		"the text":                     {switchcfg.Values{"protects": "b"}, "policies.c.protects", "cannot change while the process runs"},
		"the audit":                    {switchcfg.Values{"audit": "off"}, "policies.c.audit", "cannot change while the process runs"},
		"the ttl":                      {switchcfg.Values{"ttl": "20s"}, "policies.c.ttl", "cannot change while the process runs"},
		"below":                        {switchcfg.Values{"local": map[string]any{"keys": 5}}, "policies.c.local.keys", "cannot change"},
		"two that clash":               {switchcfg.Values{"relaxed_at": 0.9, "saturated_at": 0.8}, "policies.c.relaxed_at", "below saturated_at"},
		"too short a time":             {switchcfg.Values{"local": map[string]any{"ttl": "10ms"}}, "policies.c.local.ttl", "want 1s to 10m"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, weak(), func(t *testing.T, k one) {
				d := bypassFor(time.Hour, 1)
				d.Policies = map[string]switchcfg.Values{"c": c.values}
				before := k.Policy()
				err := k.Apply(d)
				inv, ok := errors.AsType[*tierlock.InvalidError](err)
				if !ok || inv.Field != c.field || !strings.Contains(inv.Rule, c.rule) {
					t.Errorf("error %v", err)
				}
				if tier, _ := k.ask("a"); tier != tierlock.Shared || k.AppliedVersion() != 0 || k.Policy() != before {
					t.Errorf("something of it is in force: tier %v, version %d", tier, k.AppliedVersion())
				}
			})
		})
	}
}

func TestEveryFaultOfADocumentIsToldAtOnce(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		d := bypassFor(time.Hour, 1) // a strong chain, without break_glass
		d.Policies = map[string]switchcfg.Values{"c": {"on_down": "local"}}
		err := k.Apply(d)
		for _, want := range []string{"chains.c.mode", "policies.c.on_down"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one that names %s", err, want)
			}
		}
	})
}

// TestAmendChangesWhatItSaysAndNothingElse: a document can change none of what the code of a
// chain, its locks in hand and other instances rely on.
func TestAmendChangesWhatItSaysAndNothingElse(t *testing.T) {
	live := map[string]any{
		"wait": "1s", "wait_schedule": "exp(10ms, 3, cap 1s)", "on_saturated": "fail", "on_down": "optimistic",
		"saturated_at": 0.9, "relaxed_at": 0.7, "saturate_in": "6s", "relax_in": "3s", "slow_timeouts": 6, "fast_probes": 4,
		"down_failures": 6, "probe_lost": "2s", "ramp_from": 0.2, "ramp_every": "2s",
		"local": map[string]any{"ttl": "5s", "permits": 2},
	}
	base := weak()
	p, err := base.Amend(live)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(live)) { // each moves something of its own
		one, err := base.Amend(switchcfg.Values{name: live[name]})
		if err != nil || one == base {
			t.Errorf("%s alone: %v", name, err)
		}
	}
	want := base
	want.Wait, want.Schedule, want.Ladder, want.Local.TTL, want.Local.Permits = p.Wait, p.Schedule, p.Ladder, 5*time.Second, 2
	if p != want || p.Ladder.Class != base.Ladder.Class || p.Ladder.VersionGuard != base.Ladder.VersionGuard {
		t.Errorf("%+v", p)
	}
}

// TestAmendKnowsEveryFieldOfAPolicy: of each that a file may set, either it may change or it
// is told to take a restart; none is told to be none.
func TestAmendKnowsEveryFieldOfAPolicy(t *testing.T) {
	for _, name := range fields("", reflect.TypeFor[gateway.Policy]()) {
		_, err := weak().Amend(switchcfg.Values{}.With(name, []any{}))
		if err == nil || strings.Contains(err.Error(), "no field") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fields lists what a file may set in a struct of type t.
func fields(prefix string, t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		_, isWord := reflect.New(f.Type).Interface().(encoding.TextUnmarshaler)
		switch {
		case strings.Contains(options, "inline"):
			names = append(names, fields(prefix, f.Type)...)
		case f.Type.Kind() == reflect.Struct && !isWord:
			names = append(names, fields(prefix+name+".", f.Type)...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}
