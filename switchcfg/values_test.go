package switchcfg

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

func TestValuesAreReadAsStrictlyAsATextAndKeepWhatTheyDoNotName(t *testing.T) {
	d, err := Parse([]byte("version: 1\nchains: {}\npolicies: {coupon: {wait: 500ms, share: 0.5, local: {permits: 1}, name: \"1\"}}"))
	if err != nil {
		t.Fatal(err)
	}
	type record struct {
		Wait  time.Duration `yaml:"wait"`
		Share float64       `yaml:"share"`
		Name  string        `yaml:"name"`
		Keep  int           `yaml:"keep"`
		Local struct {
			Permits int `yaml:"permits"`
		} `yaml:"local"`
	}
	got := record{Keep: 7}
	if err := d.Policies["coupon"].Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := record{Wait: 500 * time.Millisecond, Share: .5, Name: "1", Keep: 7}
	want.Local.Permits = 1
	if got != want {
		t.Errorf("%+v", got)
	}
	err = Values{"wait": 500, "wiat": "1s"}.Decode(&got)
	if !errors.Is(err, tierlock.ErrInvalid) || strings.Contains(err.Error(), "line") || !strings.Contains(err.Error(), "with its unit") || !strings.Contains(err.Error(), "not known here") {
		t.Errorf("%v", err)
	}
	if err := (Values{}).Decode(record{}); err == nil {
		t.Error("decoded into no pointer")
	}
}

// What JSON has no word for would take the document its hash, and two that say different
// things would be one.
func TestAPolicyValueIsANumberThatJSONHas(t *testing.T) {
	for _, value := range []string{".nan", ".inf", "-.inf"} {
		_, err := Parse([]byte("version: 1\nchains: {}\npolicies: {other: {share: " + value + "}}\n"))
		bad := tierlock.Invalids(err)
		if len(bad) != 1 || bad[0].Field != "policies.other.share" || bad[0].Value != value {
			t.Errorf("%s: %v", value, err)
		}
	}
}
