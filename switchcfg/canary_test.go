package switchcfg

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierlock/tierlock"
)

func TestACanaryCoversWhoIsNamedAndItsShare(t *testing.T) {
	named := &Canary{Instances: []string{"shop-1", "shop-2"}}
	for name, want := range map[string]bool{"shop-1": true, "shop-2": true, "shop-3": false, "": false} {
		if named.Covers(name) != want {
			t.Errorf("%q: covered %v", name, !want)
		}
	}
	if !(*Canary)(nil).Covers("") {
		t.Error("without a canary somebody is left out")
	}
	ten, thirty, in := &Canary{Percent: 10}, &Canary{Percent: 30}, 0
	for i := range 1000 {
		name := fmt.Sprintf("shop-order-%d", i)
		if thirty.Covers(name) {
			in++
		}
		if ten.Covers(name) && !thirty.Covers(name) {
			t.Fatalf("%s is in a tenth and not in a third", name)
		}
	}
	if in < 230 || in > 370 {
		t.Errorf("%d of 1000 instances in 30 %%", in)
	}
}

func TestACanaryThatNamesNobodyIsRefused(t *testing.T) {
	for text, field := range map[string]string{
		"{}":                          "canary",
		"{percent: 100}":              "canary.percent",
		"{instances: [a, \"\"]}":      "canary.instances[1]",
		"{instances: [], percent: 0}": "canary",
	} {
		d, err := Parse([]byte("version: 1\nchains: {}\ncanary: " + text))
		if err != nil {
			t.Fatal(err)
		}
		inv, ok := errors.AsType[*tierlock.InvalidError](d.Check(time.Now()))
		if !ok || inv.Field != field {
			t.Errorf("%s: %v, want a fault of %s", text, d.Check(time.Now()), field)
		}
	}
}

// startAs is start for an instance with a name.
func startAs(t *testing.T, f *fake, name, lastGood string) *bundle {
	t.Helper()
	return startWith(t, f, f, FollowConfig{LastGood: lastGood, Instance: name})
}

func TestACanaryGetsTheDocumentFirstAndTheOthersKeepTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: doc("1", time.Hour)}
		canary, other := startAs(t, f, "shop-1", ""), startAs(t, f, "shop-2", "")
		canary.after(time.Millisecond)
		f.set(func() { f.text = doc("2", time.Hour) + "\ncanary: {instances: [shop-1]}" })
		if r := canary.after(6 * time.Second); r.Version != 2 || r.Withheld != 0 || r.Fault != nil {
			t.Errorf("the canary: %+v", r)
		}
		if r := other.after(time.Second); r.Version != 1 || r.Withheld != 2 || r.Fault != nil {
			t.Errorf("another: %+v", r)
		}
		other.after(time.Minute)
		if n := strings.Count(other.log.String(), "its canary leaves this instance out"); n != 1 {
			t.Errorf("told %d times in a minute", n)
		}
		f.set(func() { f.text = doc("3", time.Hour) })
		for _, b := range []*bundle{canary, other} {
			if r := b.after(6 * time.Second); r.Version != 3 || r.Withheld != 0 {
				t.Errorf("at the end of the canary: %+v", r)
			}
		}
		canary.stop()
		other.stop()
		if v := other.versions(); !reflect.DeepEqual(v, []uint64{1, 3}) {
			t.Errorf("the other applied %v", v)
		}
	})
}
