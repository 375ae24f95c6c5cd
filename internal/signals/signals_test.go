package signals

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/gateway"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded runs story on a weak and a strong chain whose health is recorded, asks both ten
// times a second meanwhile, and returns the recording: the file before the last, and the last.
func recorded(t *testing.T, maxBytes int64, story func(k *gatewaytest.Kit)) (before, last string) {
	path := filepath.Join(t.TempDir(), "signals")
	chains := map[string]gateway.Policy{
		"coupon": gateway.Weak("p", gateway.Reconcile), "order": gateway.Strong("p", gateway.Fence),
	}
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(Config{Path: path, Chains: chains})
		if err != nil {
			t.Fatal(err)
		}
		r.cfg.MaxBytes = maxBytes
		k := gatewaytest.New(t, chains, r.Hooks())
		ctx, stop := context.WithCancel(t.Context())
		asks := make(chan struct{})
		go func() {
			defer close(asks)
			for n := 0; ctx.Err() == nil; n++ {
				for name := range chains {
					c, err := k.Chain(name)
					if err != nil {
						t.Error(err)
						return
					}
					l, _ := c.TryLock(context.Background(), fmt.Sprint(n))
					_ = l.Unlock(context.Background())
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		story(k)
		stop()
		<-asks
		k.End()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	text := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	return text(path + ".1"), text(path)
}

// outage goes through every state that a store can be in.
func outage(k *gatewaytest.Kit) {
	time.Sleep(10 * time.Second)
	k.Store.Down(true)
	time.Sleep(10 * time.Second)
	k.Store.Mend()
	time.Sleep(15 * time.Second)
	k.Store.Saturate(true)
	time.Sleep(12 * time.Second)
	k.Store.Mend()
	time.Sleep(10 * time.Second)
	k.ForceFor("coupon", tierlock.ModeBypass, 10*time.Second)
	time.Sleep(20 * time.Second)
}

func same(_ string, p degrade.Policy) (degrade.Policy, error) { return p, nil }

func simulated(t *testing.T, recording string, change Change) map[string]*Chain {
	t.Helper()
	r, err := Simulate(strings.NewReader(recording), change)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Chain{}
	for i := range r.Chains {
		all[r.Chains[i].Chain] = &r.Chains[i]
	}
	if err := r.WriteText(io.Discard); err != nil {
		t.Error(err)
	}
	return all
}

func words(steps []Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.To.String())
	}
	return strings.Join(all, " ")
}

// Replayed under the policy that it was recorded under, a recording steps as the gateway
// did, and its calls get what they got.
func TestAReplayIsFaithful(t *testing.T) {
	_, recording := recorded(t, 64<<20, outage)
	for name, c := range simulated(t, recording, same) {
		if got := words(c.Really.Steps); got != "down recovering normal saturated normal" {
			t.Fatalf("%s: the story stepped %s", name, got)
		}
		if !c.Faithful || len(c.Changed) != 0 || words(c.Simulated.Steps) != words(c.Recorded.Steps) {
			t.Errorf("%s: really %v\nreplayed %v", name, c.Really.Steps, c.Recorded.Steps)
		}
		for what, n := range c.Really.Calls {
			if what == gotHeld {
				continue
			}
			if got := c.Recorded.Calls[what]; what != gotRefused && what != "shared" && what != "optimistic" && math.Abs(float64(got-n)) > 5 {
				t.Errorf("%s: %d calls got %s, replayed %d", name, n, what, got)
			}
		}
		sum := 0.0
		for _, s := range c.Recorded.Seconds {
			sum += s
		}
		if sum < 76 || sum > 78 {
			t.Errorf("%s: %v s of 77: %v", name, sum, c.Recorded.Seconds)
		}
	}
}

// Under another policy the same signals lead elsewhere.
func TestAnotherPolicyStepsOtherwise(t *testing.T) {
	_, recording := recorded(t, 64<<20, outage)
	all := simulated(t, recording, func(_ string, p degrade.Policy) (degrade.Policy, error) {
		p.SaturateIn = 2 * time.Second
		if p.Class == degrade.ClassWeak {
			p.OnDown = degrade.FallbackFail
		}
		return p, nil
	})
	c := all["coupon"]
	if c.Changed["saturate_in"] != (Values{"5s", "2s"}) || c.Changed["on_down"] != (Values{"local", "fail"}) || len(c.Changed) != 2 {
		t.Errorf("changed %v", c.Changed)
	}
	earlier := time.Duration(0)
	for i, s := range c.Simulated.Steps {
		if s.To == degrade.Saturated {
			earlier = c.Recorded.Steps[i].At.Sub(s.At)
		}
	}
	if earlier < 2900*time.Millisecond || earlier > 3100*time.Millisecond {
		t.Errorf("saturated %v earlier, want 3s", earlier)
	}
	if was, is := c.Recorded.Seconds, c.Simulated.Seconds; was[gotRefused] != 0 || math.Abs(is[gotRefused]-10) > 1 || math.Abs(is["bypass"]-10) > .2 || math.Abs(was["bypass"]-10) > .2 {
		t.Errorf("seconds %v, other %v", was, is)
	}
	if was, is := c.Recorded.Calls, c.Simulated.Calls; is[gotRefused] < 80 || was[gotRefused] != 0 {
		t.Errorf("calls %v, other %v", was, is)
	}
	if c := all["order"]; c.Recorded.Seconds["local"] != 0 || c.Simulated.Seconds[gotRefused] < c.Recorded.Seconds[gotRefused]+2 {
		t.Errorf("order: %v, other %v", c.Recorded.Seconds, c.Simulated.Seconds)
	}
}

// A full file is put aside, and the next one can be read alone or behind it.
func TestARecordingGoesOnInAnotherFile(t *testing.T) {
	story := func(k *gatewaytest.Kit) {
		outage(k)
		k.Store.Down(true)
		time.Sleep(60 * time.Second)
	}
	_, whole := recorded(t, 64<<20, story)
	// Probes come with jitter, so one recording is a third longer than another: it is made
	// until its file is turned once.
	var before, last string
	for tries := 0; !strings.Contains(before, `"start":true`); tries++ {
		if tries == 20 {
			t.Fatalf("%d bytes were put aside, %d came behind, of some %d", len(before), len(last), len(whole))
		}
		before, last = recorded(t, int64(len(whole))*7/10, story)
	}
	alone := simulated(t, last, same)["coupon"]
	if down := alone.Recorded.Seconds["local"]; down < 5 {
		t.Errorf("the last file alone: %v, %s", alone.Recorded.Seconds, words(alone.Recorded.Steps))
	}
	if both := simulated(t, before+last, same)["coupon"]; !both.Faithful || both.Recorded.Seconds["local"] < alone.Recorded.Seconds["local"] {
		t.Errorf("both: %+v", both)
	}
}

const head = `{"at":"2026-11-29T10:00:00Z","chain":"coupon","start":true,"policy":{"class":"weak","on_down":"local","on_saturated":"local","later_release":"x"}}
{"at":"2026-11-29T10:00:00Z","chain":"coupon","signals":{}}
`

// A canary moves its percentage of the time and the calls.
func TestACanaryIsWeighed(t *testing.T) {
	c := simulated(t, head+`{"at":"2026-11-29T10:00:00Z","chain":"coupon","order":{"mode":"bypass","percent":25,"until":"2026-11-29T10:00:08Z"}}
{"at":"2026-11-29T10:00:10Z","chain":"coupon","calls":{"bypass":20,"shared":80}}
`, same)["coupon"]
	if s := c.Recorded.Seconds; s["bypass"] != 2 || s["shared"] != 8 {
		t.Errorf("seconds %v", s)
	}
	if n := c.Recorded.Calls; n["bypass"] != 20 || n["shared"] != 80 {
		t.Errorf("calls %v", n)
	}
}

// While a store is slow two calls a second try, and the rest is told at once.
func TestASlowStoreLetsTwoASecondTry(t *testing.T) {
	c := simulated(t, head+`{"at":"2026-11-29T10:00:00.1Z","chain":"coupon","signals":{"timeouts":5}}
{"at":"2026-11-29T10:00:00.1Z","chain":"coupon","calls":{"shared":3}}
{"at":"2026-11-29T10:00:10.1Z","chain":"coupon","calls":{"optimistic":100}}
`, same)["coupon"]
	if s := c.Recorded; s.Seconds[gotSlow] != 10 || s.Calls[gotSlow] != 20 || s.Calls["optimistic"] != 80 || s.Calls["shared"] != 3 {
		t.Errorf("%+v", s)
	}
}

// A look that tells nothing new is not written: until the next line the ladder saw the same,
// and time goes by for it.
func TestALookHoldsUntilTheNext(t *testing.T) {
	c := simulated(t, head+`{"at":"2026-11-29T10:00:00Z","chain":"coupon","signals":{"occupancy":1}}
{"at":"2026-11-29T10:00:09Z","chain":"coupon","signals":{"occupancy":1}}
`, same)["coupon"]
	if s := c.Recorded; len(s.Steps) != 1 || s.Steps[0].At.Second() != 5 || s.Seconds["local"] != 4 {
		t.Errorf("%+v", s)
	}
}

func TestTimeThatWasNotRecordedCountsForNothing(t *testing.T) {
	c := simulated(t, head+`{"at":"2026-11-29T11:00:00Z","chain":"coupon","signals":{}}
{"at":"2026-11-29T11:00:01Z","chain":"coupon","signals":{}}
`, same)["coupon"]
	if c.Unrecorded != 3600 || c.Recorded.Seconds["shared"] != 1 {
		t.Errorf("%v s unrecorded, %v", c.Unrecorded, c.Recorded.Seconds)
	}
}

func TestWhatIsNoRecordingIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":            {"", "names no chain"},
		"no JSON":          {head + "hello", "line 3 is not one of a recording"},
		"no time":          {`{"chain":"coupon"}`, "invalid line 1: at: is missing"},
		"no policy first":  {`{"at":"2026-11-29T10:00:00Z","chain":"x","signals":{}}`, `invalid line 1: chain "x": has no policy line before this one`},
		"a broken policy":  {`{"at":"2026-11-29T10:00:00Z","chain":"x","policy":{"class":"weak","saturate_in":"soon"}}`, "invalid line 1: saturate_in"},
		"another's policy": {`{"at":"2026-11-29T10:00:00Z","chain":"x","policy":{"class":"strong","on_down":"local"}}`, "invalid line 1: on_down"},
		"time runs back":   {head + `{"at":"2026-11-29T09:00:00Z","chain":"coupon","signals":{}}`, "is before what came before"},
		"a state unknown":  {head + `{"at":"2026-11-29T10:00:00Z","chain":"coupon","stands":{"state":"ill"}}`, "line 3 is not one of a recording"},
	} {
		if _, err := Simulate(strings.NewReader(c.text), same); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARecorderThatCannotBegin(t *testing.T) {
	if _, err := Open(Config{MaxBytes: 7}); len(tierlock.Invalids(err)) != 2 {
		t.Errorf("got %v", err)
	}
	if _, err := Open(Config{Path: filepath.Join(t.TempDir(), "nowhere", "signals")}); err == nil {
		t.Error("began in a folder that is not there")
	}
}
