package reconcile

import (
	"fmt"
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
	back := sealed // the clock was set back before the end
	back.At = base.Add(-time.Second)
	same := sealed
	same.At = base
	second := func(ev audit.Event) audit.Event { ev.Epoch = 2; return ev }
	other := beat(30, "")
	other.Tiers = map[string]string{"order": "shared"}
	for name, c := range map[string]struct {
		events []audit.Event
		want   bool
	}{
		"nobody has the chain":                  {nil, true},
		"shared for 20 s":                       {[]audit.Event{beat(0, "shared"), beat(20, "shared")}, true},
		"shared for less":                       {[]audit.Event{beat(0, "shared"), beat(19, "shared")}, false},
		"a break begins anew":                   {[]audit.Event{beat(0, "shared"), beat(10, "local"), beat(11, "shared"), beat(30, "shared")}, false},
		"a bypass grant between two heartbeats": {[]audit.Event{beat(0, "shared"), beat(21, "shared"), bypassed, beat(25, "shared")}, false},
		"a restart is a break":                  {[]audit.Event{beat(0, "shared"), beat(20, "shared"), event(audit.TypeHello, 21, "")}, false},
		"and is over 20 s later":                {[]audit.Event{beat(0, "shared"), event(audit.TypeHello, 21, ""), beat(22, "shared"), beat(42, "shared")}, true},
		"who has ended is not waited for":       {[]audit.Event{beat(0, "bypass"), sealed}, true},
		"whose clock was set back before":       {[]audit.Event{beat(0, "bypass"), back}, true},
		"or stood still":                        {[]audit.Event{beat(0, "bypass"), same}, true},
		"who has begun again is":                {[]audit.Event{beat(0, "shared"), beat(20, "shared"), sealed, second(beat(26, "bypass"))}, false},
		"with a clock that was set back too":    {[]audit.Event{beat(0, "shared"), beat(20, "shared"), sealed, second(beat(-50, "bypass"))}, false},
		"and is quiet by that clock":            {[]audit.Event{beat(0, "bypass"), beat(20, "bypass"), second(beat(-50, "shared")), second(beat(-30, "shared"))}, true},
		"whatever comes late of the one before": {[]audit.Event{beat(0, "shared"), second(beat(21, "shared")), beat(20, "bypass"), sealed, second(beat(41, "shared"))}, true},
		"the end of the one before is not its":  {[]audit.Event{second(beat(0, "bypass")), sealed}, false},
		"nor who has the chain no more":         {[]audit.Event{beat(0, "bypass"), event(audit.TypeHello, 21, ""), other}, true},
	} {
		t.Run(name, func(t *testing.T) {
			fl := fleet{by: map[string]*member{}}
			now := base.Add(time.Minute)
			for i := range c.events {
				fl.hear(&c.events[i], &Record{Offset: int64(i), Time: c.events[i].Time()}, now)
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

// heardIn is one event and the partition it comes from.
type heardIn struct {
	partition int
	ev        audit.Event
}

// Partitions are read from different places, and one after the other: what any of them
// proves counts, and what any of them disproves.
func TestQuietOverPartitions(t *testing.T) {
	beat := func(partition, at int, tier string) heardIn {
		return heardIn{partition, audit.Event{
			Type: audit.TypeHeartbeat, Producer: "p", Epoch: 1, At: base.Add(time.Duration(at) * time.Second), Tiers: map[string]string{"coupon": tier},
		}}
	}
	bypass := func(partition, at int) heardIn {
		return heardIn{partition, audit.Event{
			Type: audit.TypeAcquire, Producer: "p", Epoch: 1, Chain: "coupon", Tier: tierlock.Bypass, GrantedAt: base.Add(time.Duration(at) * time.Second),
		}}
	}
	without := heardIn{1, audit.Event{Type: audit.TypeHeartbeat, Producer: "p", Epoch: 1, At: base.Add(30 * time.Second), Tiers: map[string]string{"order": "shared"}}}
	other := without
	other.partition = 0
	for name, c := range map[string]struct {
		events []heardIn
		want   bool
	}{
		"the one that is read first has the last alone": {[]heardIn{beat(0, 30, "shared"), beat(1, 0, "shared"), beat(1, 15, "shared"), beat(1, 30, "shared")}, true},
		"and the longer one is too short":               {[]heardIn{beat(0, 30, "shared"), beat(1, 15, "shared"), beat(1, 30, "shared")}, false},
		"two that are short are not one that is long":   {[]heardIn{beat(0, 0, "shared"), beat(0, 5, "shared"), beat(1, 25, "shared"), beat(1, 30, "shared")}, false},
		"a break that only the second one tells":        {[]heardIn{beat(0, 0, "shared"), beat(0, 30, "shared"), beat(1, 15, "bypass"), beat(1, 30, "shared")}, false},
		"a grant that only the second one tells":        {[]heardIn{beat(0, 0, "shared"), beat(0, 30, "shared"), bypass(1, 15)}, false},
		"a grant before the stretch":                    {[]heardIn{beat(0, 5, "shared"), beat(0, 30, "shared"), bypass(1, 2)}, true},
		"20 s after a grant that was read late":         {[]heardIn{beat(0, 0, "shared"), beat(0, 30, "shared"), bypass(1, 15), beat(0, 50, "shared")}, true},
		"a chain that is no more":                       {[]heardIn{other, beat(1, 0, "bypass"), without}, true},
		"a grant by a clock that is hours ahead":        {[]heardIn{bypass(1, 7200), beat(0, 90, "shared"), beat(0, 115, "shared")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			fl := fleet{by: map[string]*member{}}
			now := base.Add(time.Minute)
			for i := range c.events {
				fl.hear(&c.events[i].ev, &Record{Partition: c.events[i].partition, Offset: int64(i), Time: now}, now)
				now = now.Add(time.Second)
			}
			if got := fl.quiet("coupon", 20*time.Second, time.Hour, now); got != c.want {
				t.Errorf("quiet: %t", got)
			}
		})
	}
	fl := fleet{by: map[string]*member{}}
	for i, e := range []heardIn{beat(0, 0, "shared"), beat(0, 30, "shared")} {
		fl.hear(&e.ev, &Record{Partition: e.partition, Offset: int64(i)}, base.Add(time.Minute))
	}
	fl.drop(0)
	if fl.quiet("coupon", 20*time.Second, time.Hour, base.Add(time.Minute)) {
		t.Error("quiet by a partition that is another member's now")
	}
}

// A run that ends with what there is repairs where the fleet is quiet, although the first
// partition that it reads has been read before and brings the last heartbeats alone.
func TestARunThatEndsFindsTheFleetQuiet(t *testing.T) {
	s := newStream(2)
	p, q := s.producer("p"), s.producer("q")
	begin := time.Now().Add(-5 * time.Minute)
	conflicting := func(lock string) {
		for _, who := range []*producer{p, q} {
			iv := at(t, who.name, tierlock.Bypass, who.name, 0, 500)
			iv.GrantedAt, iv.EndedAt = begin, begin.Add(time.Second)
			iv.Key, iv.Chain, iv.Business = key(t, "biz:coupon:lock:"+lock), "coupon", audit.Business{Type: "coupon", ID: "u1-c1"}
			who.write(acquireOf(&iv))
			who.write(endOf(&iv))
		}
	}
	for i := 0; ; i++ { // a key of the partition that is read last
		if lock := fmt.Sprint("k", i); audit.PartitionOf("biz:coupon:lock:"+lock, 2) == 1 {
			conflicting(lock)
			break
		}
	}
	for second := 5; second <= 120; second += 5 {
		for _, who := range []*producer{p, q} {
			who.beat(begin.Add(time.Duration(second)*time.Second), sharedTiers)
		}
	}
	s.marks[0] = Mark{Partition: 0, Offset: int64(len(s.logs[0]) - 2), Judged: begin.Add(time.Minute), Read: int64(len(s.logs[0]))}
	led, lock, got := newLedger(), &locker{tier: tierlock.Shared}, newStore()
	led.claims["u1-c1"] = 2
	cfg := Config{Source: s.join(), Findings: []Findings{got}}
	applying(led, lock, nil)(&cfg)
	if err := mustJob(t, cfg).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := got.standing(KindOverlap); len(found) != 1 || found[0].State != StateRepaired || led.claims["u1-c1"] != 1 {
		t.Errorf("%+v, claims %v", found, led.claims)
	}
}
