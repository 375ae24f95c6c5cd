package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/switchcfg"
)

func (k one) explain(id string) *gateway.Explanation {
	k.t.Helper()
	key, err := tierlock.ParseKey("biz:c:lock:" + id)
	if err != nil {
		k.t.Fatal(err)
	}
	x, err := k.Explain(k.t.Context(), key)
	if err != nil {
		k.t.Fatal(err)
	}
	return x
}

// lease is Lock that leaves renewing alone, so that what is foretold stays so.
func (k one) lease(id string) *gateway.Lock { return k.must(id, gateway.WithoutRenew()) }

// What an explanation foretells is what the next one who asks is told: in every state of
// the ladder, and with the key taken in every way.
func TestWhatIsForetoldComes(t *testing.T) {
	noFence := strong()
	noFence.Fencing = false
	single := weak()
	single.Local.Permits = 1
	small := weak()
	small.Local.Keys = 1
	for name, c := range map[string]struct {
		policy gateway.Policy
		before func(k one)
		by     string
		admits string
	}{
		"free":                         {weak(), func(one) {}, "health", ""},
		"held":                         {weak(), func(k one) { k.lease("a") }, "store", ""},
		"down, weak":                   {weak(), one.takeDown, "health", ""},
		"down, strong":                 {strong(), one.takeDown, "health", ""},
		"down, guarded":                {guarded(), one.takeDown, "health", ""},
		"down, held before":            {weak(), func(k one) { k.lease("a"); k.takeDown() }, "holder", ""},
		"down, one permit taken":       {single, func(k one) { k.takeDown(); k.lease("a") }, "table", ""},
		"down, two of three permits":   {weak(), func(k one) { k.takeDown(); k.lease("a"); k.lease("a") }, "health", ""},
		"down, the table is full":      {small, func(k one) { k.takeDown(); k.lease("b") }, "table", ""},
		"slow, weak":                   {weak(), one.slowDown, "store", "trickle"},
		"slow, strong":                 {strong(), one.slowDown, "store", "trickle"},
		"silent, not known yet":        {strong(), func(k one) { k.Store.Hang(true) }, "store", ""},
		"recovering":                   {weak(), recovering, "health", "ramp"},
		"recovering, own local holder": {weak(), func(k one) { k.takeDown(); k.lease("a"); recovers(k) }, "holder", "ramp"},
		"down, only observed":          {observed(), one.takeDown, "store", ""},
		"ordered to bypass":            {weak(), func(k one) { k.Force("c", tierlock.ModeBypass) }, "order", ""},
		"ordered to reject":            {strong(), func(k one) { k.Force("c", tierlock.ModeReject) }, "order", ""},
		"ordered to optimistic":        {guarded(), func(k one) { k.Force("c", tierlock.ModeOptimistic) }, "order", ""},
		"ordered to local, held":       {weak(), func(k one) { k.lease("a"); k.Force("c", tierlock.ModeLocal) }, "holder", ""},
		"broken, on_down is fail by now": {weak(), func(k one) {
			k.amend(switchcfg.Values{"on_down": "fail"})
			k.Store.DropReplies(2)
		}, "store", ""},
		"a permit taken alone, more by now": {single, func(k one) {
			k.takeDown()
			k.lease("a")
			k.amend(switchcfg.Values{"local": map[string]any{"permits": 3}})
		}, "table", ""},
		"the store has forgotten": {noFence, func(k one) { k.ask("b"); k.Store.Forget() }, "lock_delay", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.policy, func(t *testing.T, k one) {
				c.before(k)
				asked := k.Store.Counts().Acquire
				x := k.explain("a")
				if x.Next.By != c.by || x.Next.Admits != c.admits || (c.admits == "") != (x.Next.Others == nil) {
					t.Errorf("decided by %q, admits %q, others %v", x.Next.By, x.Next.Admits, x.Next.Others)
				}
				if k.Store.Counts().Acquire != asked {
					t.Error("the explanation asked for a lock")
				}
				tier, v := k.ask("a")
				if v.Outcome != x.Next.Outcome || v.Reason != x.Next.Reason && v.Outcome != tierlock.Success || v.Advice != x.Next.Advice {
					t.Errorf("foretold %+v, came %+v", x.Next, v)
				}
				if v.Outcome == tierlock.Success && tier != x.Next.Tier {
					t.Errorf("foretold %v, came %v", x.Next.Tier, tier)
				}
			})
		})
	}
}

// amend changes the chain's policy live.
func (k one) amend(v switchcfg.Values) {
	k.t.Helper()
	d := switchcfg.Document{Version: 1000, Chains: map[string]switchcfg.Directive{}, Policies: map[string]switchcfg.Values{"c": v}}
	if err := k.Apply(d); err != nil {
		k.t.Fatal(err)
	}
}

func observed() gateway.Policy {
	p := weak()
	p.Ladder.Observe = true
	return p
}

func recovering(k one) {
	k.takeDown()
	recovers(k)
}

// recovers waits until the store is back, and not for the end of the ramp.
func recovers(k one) {
	k.Store.Mend()
	eventually(k.t, 5*time.Second, "recovering", func() bool { return k.Status().Chains[0].Targets[0].State == degrade.Recovering })
}

func TestAnExplanationKnowsWhoHasTheKeyAndWhoWaits(t *testing.T) {
	bubble(t, strong(), func(t *testing.T, k one) {
		l := k.lease("a")
		inner, err := k.TryLock(l.Context(t.Context()), "a")
		if err != nil {
			t.Fatal(err)
		}
		waiter := make(chan error)
		go func() {
			_, err := k.Lock(context.Background(), "a", gateway.WithWait(2*time.Second))
			waiter <- err
		}()
		time.Sleep(time.Second)
		x := k.explain("a")
		fp := l.Grant().RequestID.Fingerprint()
		if s := x.Store; s.Found != "held" || s.Holder != fp || !s.Here || s.Remaining != 59_000 {
			t.Errorf("store %+v", s)
		}
		if x.Held != 1 || len(x.Holders) != 1 || x.Waiting != 1 || x.Doubtful != 0 {
			t.Fatalf("%d held, %d waiting, %d in doubt", x.Held, x.Waiting, x.Doubtful)
		}
		if h := x.Holders[0]; h.Holder != fp || h.Tier != tierlock.Shared || h.Token != 1 || h.Entries != 2 || h.Expires != 58_950 || !h.Exclusive {
			t.Errorf("holder %+v", h)
		}
		_, _ = inner.Unlock(t.Context()), l.Unlock(t.Context())
		if err := <-waiter; err != nil {
			t.Error(err)
		}
		if c := k.Store.Counts(); c.Lookup != 1 {
			t.Errorf("the store was asked %d times", c.Lookup)
		}
	})
}

func TestAnExplanationKnowsWhatIsInDoubt(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.Store.Hang(true)
		k.ask("a")
		k.ask("b")
		time.Sleep(time.Second)
		x := k.explain("a")
		if x.Doubtful != 1 || len(x.InDoubt) != 1 || !x.InDoubt[0].Until.After(x.At) || x.InDoubt[0].Since.After(x.At) {
			t.Errorf("%d in doubt: %+v", x.Doubtful, x.InDoubt)
		}
	})
}

func TestAnExplanationRemembersTheLastChanges(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		for range 4 { // 12 steps, of which 8 are kept
			k.takeDown()
			k.Store.Mend()
			eventually(t, 10*time.Second, "normal", func() bool { return k.Status().Chains[0].Targets[0].State == degrade.Normal })
		}
		k.ForceFor("c", tierlock.ModeLocal, time.Minute)
		time.Sleep(2 * time.Minute)
		x := k.explain("a")
		var steps []string
		for _, s := range x.Steps {
			steps = append(steps, s.To.String())
		}
		if got := strings.Join(steps, " "); got != "recovering normal down recovering normal down recovering normal" {
			t.Errorf("steps %s", got)
		}
		if x.Health.Steps != 12 || x.Health.State != degrade.Normal {
			t.Errorf("health %+v", x.Health)
		}
		if len(x.Orders) != 2 || x.Orders[0].Mode != tierlock.ModeLocal || x.Orders[0].Version != 1 || x.Orders[1].Mode != tierlock.ModeAuto || x.Order != nil {
			t.Errorf("orders %+v, now %+v", x.Orders, x.Order)
		}
		if n := k.explain("b").Policy; n["on_down"] != "local" || n["ttl"] != "1m0s" || n["local.permits"] != "3" || n["saturated_at"] != "0.95" || n["audit"] != "all" {
			t.Errorf("policy %v", n)
		}
	})
}

// A canary's order covers some keys only, and each is told its own.
func TestAnExplanationKnowsTheCanary(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		percent := uint8(50)
		doc := bypassFor(time.Hour, 1)
		d := doc.Chains["c"]
		d.Percent = &percent
		doc.Chains["c"] = d
		if err := k.Apply(doc); err != nil {
			t.Fatal(err)
		}
		covered := 0
		for i := range 40 {
			x := k.explain(fmt.Sprint(i))
			if x.Order == nil || x.Order.Percent != 50 || x.Order.Covers != (x.Next.Tier == tierlock.Bypass) {
				t.Fatalf("%s: order %+v, next %+v", x.Key, x.Order, x.Next)
			}
			if x.Order.Covers {
				covered++
			}
		}
		if covered == 0 || covered == 40 {
			t.Errorf("%d of 40 are covered", covered)
		}
	})
}

// No request id shows, as JSON, as text or in an error; the JSON reads back as it was.
func TestAnExplanationHoldsNoRequestID(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		l := k.lease("a")
		k.Store.Hang(true)
		_ = l.Renew(t.Context(), time.Minute)
		_ = k.lost("b")
		x := k.explain("a")
		wire, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		var back gateway.Explanation
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Fatalf("%v\n%s", err, wire)
		}
		var text, again strings.Builder
		if x.WriteText(&text) != nil || back.WriteText(&again) != nil || text.String() != again.String() {
			t.Errorf("read back:\n%s\nwas:\n%s", &again, &text)
		}
		shown := string(wire) + text.String() + fmt.Sprintf("%v %+v %#v", x, *x, *x)
		if secret := l.Grant().RequestID.Secret(); strings.Contains(shown, secret) || !strings.Contains(shown, l.Grant().RequestID.Fingerprint()) {
			t.Errorf("%s shows in\n%s", secret, shown)
		}
	})
}

// lost asks for a lock whose answer does not come.
func (k one) lost(id string) error {
	_, err := k.TryLock(context.Background(), id)
	return err
}

func TestAnExplanationInWords(t *testing.T) {
	bubble(t, weak(), func(t *testing.T, k one) {
		k.takeDown()
		l := k.lease("a")
		var b strings.Builder
		if err := k.explain("a").WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"biz:c:lock:a, chain c (weak): one claim of a coupon per user at a time\n",
			"  a new request    local (down); decided by the health\n",
			"  order            none (switch version 0)\n",
			"  health           memory down since 00:00:00.000, 1 change so far\n",
			"refused",
			"  on the store     unknown: down (not asked)\n",
			"  in this process  local by " + l.Grant().RequestID.Fingerprint() + " since 00:00:00.000, 9.95s left, 1 entry (down)\n",
			"  waiting here     0 calls\n",
			"  in doubt         nothing\n",
			"  health changed   00:00:00.000 normal to down\n",
			"on_down local",
		} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("lacks %q:\n%s", want, b.String())
			}
		}
	})
}
