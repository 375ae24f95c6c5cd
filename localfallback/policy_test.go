package localfallback

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierlock/tierlock"
)

func TestPolicyDefaultsAreTheRequirements(t *testing.T) {
	if got, want := (Policy{}).WithDefaults(), (Policy{TTL: 10 * time.Second, Permits: 3, Keys: 100_000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	said := Policy{TTL: time.Second, Permits: 1, Keys: 7}
	if said.WithDefaults() != said || said.Validate() != nil || (Policy{}).Validate() != nil {
		t.Error("a good policy was changed or refused")
	}
}

func TestPolicyReportsEveryFaultAtOnce(t *testing.T) {
	err := Policy{TTL: time.Millisecond, Permits: -1, Keys: -2}.Validate()
	if !errors.Is(err, tierlock.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{`local.ttl "1ms"`, `local.permits "-1"`, `local.keys "-2"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}
