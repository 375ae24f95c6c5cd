package reconcile

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// When a chain is quiet, told by one producer's events at seconds after base.
func TestQuiet(t *testing.T) {
	event := func(typ audit.Type, at int, tier string) audit.Event {
		ev := audit.Event{Type: typ, Producer: "p", Epoch: 1, At: base.Add(time.Duration(at) * time.Second)}
		if tier != "" {
			ev.Tiers = map[string]string{"coupon": tier}
		}
		return ev
	}
	beat := func(at int, tier string) audit.Event { return event(audit.TypeHeartbeat, at, tier) }
	bypassed := audit.Event{
		Type: audit.TypeAcquire, Producer: "p", Epoch: 1, Chain: "coupon", Tier: tierlock.Bypass, GrantedAt: base.Add(22 * time.Second),
	}
	sealed := event(audit.TypeSeal, 25, "")
	sealed.Sealed = 1
	other := beat(30, "")
	other.Tiers = map[string]string{"order": "shared"}
	for name, c := range map[string]struct {
		events []audit.Event
		want   bool
	}{
		"nobody has the chain":                   {nil, true},
		"shared for 20 s":                        {[]audit.Event{beat(0, "shared"), beat(20, "shared")}, true},
		"shared for less":                        {[]audit.Event{beat(0, "shared"), beat(19, "shared")}, false},
		"a break begins anew":                    {[]audit.Event{beat(0, "shared"), beat(10, "local"), beat(11, "shared"), beat(30, "shared")}, false},
		"a bypass grant between two heartbeats":  {[]audit.Event{beat(0, "shared"), beat(21, "shared"), bypassed, beat(25, "shared")}, false},
		"a restart is a break":                   {[]audit.Event{beat(0, "shared"), beat(20, "shared"), event(audit.TypeHello, 21, "")}, false},
		"and is over 20 s later":                 {[]audit.Event{beat(0, "shared"), event(audit.TypeHello, 21, ""), beat(22, "shared"), beat(42, "shared")}, true},
		"who has ended is not waited for":        {[]audit.Event{beat(0, "bypass"), sealed}, true},
		"nor who has the chain no more":          {[]audit.Event{beat(0, "bypass"), event(audit.TypeHello, 21, ""), other}, true},
		"an old heartbeat of a slower partition": {[]audit.Event{beat(0, "shared"), beat(20, "shared"), beat(5, "bypass")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			fl := fleet{by: map[string]*member{}}
			now := base.Add(time.Minute)
			for i := range c.events {
				fl.hear(&c.events[i], &Record{Time: c.events[i].Time()}, now)
			}
			if got := fl.quiet("coupon", 20*time.Second, time.Hour, now); got != c.want {
				t.Errorf("quiet: %t", got)
			}
		})
	}
}

// A producer that has been silent for idle holds no repair back.
func TestQuietForgetsTheSilent(t *testing.T) {
	fl := fleet{by: map[string]*member{}}
	ev := audit.Event{Type: audit.TypeHeartbeat, Producer: "p", At: base, Tiers: map[string]string{"coupon": "bypass"}}
	fl.hear(&ev, &Record{Time: base}, base)
	for age, want := range map[time.Duration]bool{time.Hour - 1: false, time.Hour: true} {
		if got := fl.quiet("coupon", 20*time.Second, time.Hour, base.Add(age)); got != want {
			t.Errorf("after %v: quiet %t", age, got)
		}
	}
}
