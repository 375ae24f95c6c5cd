package reconcile

import (
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// toldAt is one event of producer p at a second after base.
func toldAt(partition int, epoch uint64, typ audit.Type, at int, tier string) heardIn {
	ev := audit.Event{Type: typ, Producer: "p", Epoch: epoch, At: base.Add(time.Duration(at) * time.Second)}
	switch {
	case typ == audit.TypeSeal:
		ev.Sealed = epoch
	case tier != "":
		ev.Tiers = map[string]string{"coupon": tier}
	}
	return heardIn{partition, ev}
}

func hello(partition int, epoch uint64, at int) heardIn {
	return toldAt(partition, epoch, audit.TypeHello, at, "")
}

func seal(partition int, epoch uint64, at int) heardIn {
	return toldAt(partition, epoch, audit.TypeSeal, at, "")
}

func beat(partition int, epoch uint64, at int, tier string) heardIn {
	return toldAt(partition, epoch, audit.TypeHeartbeat, at, tier)
}

// hearAll hears events in this order; each stands behind those before it in its partition.
func hearAll(fl *fleet, events []heardIn, now time.Time) {
	next := map[int]int64{}
	for i := range events {
		p := events[i].partition
		fl.hear(&events[i].ev, &Record{Partition: p, Offset: next[p], Time: now}, now)
		next[p]++
	}
}

// A process whose folder was lost begins an epoch with the time. Where the clock was set back,
// that is lower than the one before, or the same; still it is this process that counts.
func TestQuietWhereEpochsDoNotRise(t *testing.T) {
	bypassed := heardIn{1, audit.Event{Type: audit.TypeAcquire, Producer: "p", Epoch: 1000, Chain: "coupon", Tier: tierlock.Bypass, GrantedAt: base.Add(25 * time.Second)}}
	ended := []heardIn{beat(0, 1000, 0, "shared"), beat(0, 1000, 30, "shared"), seal(0, 1000, 31)}
	crashed := []heardIn{beat(0, 1000, 0, "bypass")}
	slower := []heardIn{beat(1, 1000, 0, "bypass"), bypassed, beat(1, 1000, 30, "bypass")}
	for name, c := range map[string]struct {
		events [][]heardIn
		want   bool
	}{
		"a lower one after an end, that bypasses": {[][]heardIn{ended, {hello(0, 900, 32), beat(0, 900, 33, "bypass"), beat(0, 900, 60, "bypass")}}, false},
		"and has begun only":                      {[][]heardIn{ended, {hello(0, 900, 32), beat(0, 900, 33, "shared")}}, false},
		"by its own clock":                        {[][]heardIn{ended, {hello(0, 900, -50), beat(0, 900, -49, "shared"), beat(0, 900, -40, "bypass")}}, false},
		"and is on shared":                        {[][]heardIn{ended, {hello(0, 900, 32), beat(0, 900, 33, "shared"), beat(0, 900, 53, "shared")}}, true},
		"and has ended too":                       {[][]heardIn{ended, {hello(0, 900, 32), beat(0, 900, 33, "bypass"), seal(0, 900, 34)}}, true},
		"a lower one after a crash":               {[][]heardIn{crashed, {hello(0, 900, 32), beat(0, 900, 33, "shared"), beat(0, 900, 53, "shared")}}, true},
		"that bypasses":                           {[][]heardIn{{beat(0, 1000, 0, "shared"), beat(0, 1000, 30, "shared"), hello(0, 900, 32), beat(0, 900, 33, "bypass")}}, false},
		"and one after that":                      {[][]heardIn{crashed, {hello(0, 900, 32), hello(0, 800, 33), beat(0, 800, 34, "shared"), beat(0, 800, 54, "shared")}}, true},
		"and the next one, below the first": {
			[][]heardIn{crashed, {hello(0, 900, 32), beat(0, 900, 33, "shared"), beat(0, 900, 53, "shared"), seal(0, 900, 54), hello(0, 901, 55), beat(0, 901, 56, "shared")}}, false,
		},
		"a higher one again": {
			[][]heardIn{crashed, {hello(0, 900, 32), beat(0, 900, 33, "shared"), beat(0, 900, 53, "shared"), hello(0, 1001, 54), beat(0, 1001, 55, "shared")}}, false,
		},
		"a partition that is behind": {
			[][]heardIn{crashed, {hello(0, 900, 32), beat(0, 900, 33, "shared"), beat(0, 900, 53, "shared")}, slower, {hello(1, 900, 32), beat(1, 900, 33, "shared")}}, true,
		},
		"one that is read from later on": {
			[][]heardIn{{beat(0, 900, 60, "bypass")}, slower, {seal(1, 1000, 31), hello(1, 900, 32), beat(1, 900, 60, "bypass")}}, false,
		},
		"one that has the end alone": {
			[][]heardIn{ended, {hello(1, 900, 32), beat(1, 900, 33, "bypass")}}, false,
		},
		"the same one after an end, that bypasses": {[][]heardIn{ended, {hello(0, 1000, 32), beat(0, 1000, 33, "bypass")}}, false},
		"without its hello":                        {[][]heardIn{ended, {beat(0, 1000, 33, "bypass")}}, false},
		"with a clock behind":                      {[][]heardIn{ended, {hello(0, 1000, -5), beat(0, 1000, -4, "bypass")}}, false},
		"told by one partition, the end by two":    {[][]heardIn{ended, {hello(0, 1000, 32), beat(0, 1000, 33, "bypass"), seal(1, 1000, 31)}}, false},
		"the same one on shared":                   {[][]heardIn{ended, {hello(0, 1000, 32), beat(0, 1000, 33, "shared"), beat(0, 1000, 53, "shared")}}, true},
		"the same one ended again":                 {[][]heardIn{ended, {hello(0, 1000, 32), beat(0, 1000, 33, "bypass"), seal(0, 1000, 34)}}, true},
		"the same one after a crash, behind":       {[][]heardIn{{beat(0, 1000, 0, "shared"), beat(0, 1000, 30, "shared"), hello(0, 1000, -5), beat(0, 1000, -4, "bypass")}}, false},
		"a clock set back in one process":          {[][]heardIn{{beat(0, 1000, 0, "shared"), beat(0, 1000, 30, "shared"), beat(0, 1000, -50, "bypass")}}, false},
		"that is quiet by it":                      {[][]heardIn{{beat(0, 1000, 0, "bypass"), beat(0, 1000, 30, "bypass"), beat(0, 1000, -50, "shared"), beat(0, 1000, -30, "shared")}}, true},
		"and its end, in between": {
			[][]heardIn{
				{hello(0, 1000, 0), beat(0, 1000, 1, "shared"), seal(0, 1000, 2), hello(0, 1001, 3), beat(0, 1001, 4, "bypass")},
				{hello(0, 1000, 0), beat(0, 1000, 1, "shared"), seal(0, 1000, 2)},
			}, false,
		},
		"what is sent twice": {
			[][]heardIn{
				{hello(0, 1000, 0), beat(0, 1000, 1, "shared"), seal(0, 1000, 2), hello(0, 1001, 3), beat(0, 1001, 4, "bypass")},
				{hello(0, 1000, 0), beat(0, 1000, 1, "shared"), seal(0, 1000, 2), hello(0, 1001, 3), beat(0, 1001, 4, "bypass")},
			}, false,
		},
		"what is sent twice of who has ended": {
			[][]heardIn{{hello(0, 1000, 0), beat(0, 1000, 1, "bypass"), seal(0, 1000, 2)}, {beat(0, 1000, 1, "bypass"), seal(0, 1000, 2)}}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fl := fleet{by: map[string]*member{}}
			now := base.Add(2 * time.Minute)
			var all []heardIn
			for _, part := range c.events {
				all = append(all, part...)
			}
			hearAll(&fl, all, now)
			if got := fl.quiet("coupon", 20*time.Second, time.Hour, now); got != c.want {
				t.Errorf("quiet: %t", got)
			}
		})
	}
}

// A partition that is read again tells nothing new of who lives.
func TestQuietWhileAPartitionIsReadAgain(t *testing.T) {
	fl := fleet{by: map[string]*member{}}
	now := base.Add(2 * time.Minute)
	events := []heardIn{
		hello(0, 999, 0), beat(0, 999, 1, "bypass"), seal(0, 999, 2), beat(0, 1000, 3, "bypass"), hello(0, 900, 4), beat(0, 900, 5, "shared"), beat(0, 900, 25, "shared"),
	}
	hearAll(&fl, events, now)
	for i := range events {
		fl.hear(&events[i].ev, &Record{Offset: int64(i)}, now)
		if !fl.quiet("coupon", 20*time.Second, time.Hour, now) {
			t.Errorf("not quiet any more after event %d", i)
		}
	}
}

// Who had ended when the last partition that said so went away may have begun again since,
// with whatever epoch.
func TestQuietAfterPartitionsWereAway(t *testing.T) {
	now := base.Add(2 * time.Minute)
	for name, before := range map[string][]heardIn{
		"ended":   {beat(0, 1000, 0, "shared"), seal(0, 1000, 1)},
		"crashed": {beat(0, 1000, 0, "shared"), beat(0, 1000, 30, "shared")},
	} {
		fl := fleet{by: map[string]*member{}}
		hearAll(&fl, before, now)
		fl.drop(0)
		if got := fl.quiet("coupon", 20*time.Second, time.Hour, now); got != (name == "ended") {
			t.Errorf("%s: quiet %t", name, got)
		}
		for i, e := range []heardIn{beat(0, 900, 40, "bypass"), beat(0, 900, 41, "shared"), beat(0, 900, 60, "shared"), beat(0, 900, 61, "shared")} {
			fl.hear(&e.ev, &Record{Offset: int64(10 + i), Time: now}, now)
			if got := fl.quiet("coupon", 20*time.Second, time.Hour, now); got != (i == 3) {
				t.Errorf("%s: quiet %t after beat %d", name, got, i)
			}
		}
	}
}

// A clock that is about as far ahead as is still believed is not one that is set back over and
// over.
func TestQuietByAClockThatIsAMinuteAhead(t *testing.T) {
	fl := fleet{by: map[string]*member{}}
	var now time.Time
	for i := range 12 {
		e := beat(0, 1000, 5*i, "shared")
		now = e.ev.At.Add(-ahead + time.Duration(1-i%2*2)*time.Second)
		fl.hear(&e.ev, &Record{Offset: int64(i)}, now)
	}
	if !fl.quiet("coupon", 20*time.Second, time.Hour, now) {
		t.Error("not quiet after 55 s")
	}
	e := beat(0, 1000, 60, "bypass")
	fl.hear(&e.ev, &Record{Offset: 12}, now)
	if fl.quiet("coupon", 20*time.Second, time.Hour, now) {
		t.Error("quiet while it bypasses")
	}
}
