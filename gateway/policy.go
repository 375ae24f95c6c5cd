package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
	"github.com/tierlock/tierlock/degrade"
	"github.com/tierlock/tierlock/localfallback"
)

// The limits of a policy and of the options of one call.
const (
	minTTL      = time.Second
	maxTTL      = 10 * time.Minute
	maxWait     = 2 * time.Second
	attemptsTTL = 3 // a ttl holds at least this many attempts, or no renewal could be retried in time
)

// Policy is everything that the owner of a chain decides: the lease here, and the parts
// that other packages read, each in their own words. Start from [Strong] or [Weak], whose
// parameters are what has no default; the zero Policy is invalid. Files decode over the
// defaults of their class, so a field that is missing has its default.
type Policy struct {
	Protects   string        `yaml:"protects"`      // what only one may do at a time, in a sentence; required
	OnLost     OnLost        `yaml:"on_lost"`       // what becomes of the work when the lock is lost; required
	Store      string        `yaml:"store"`         // name in Config.Stores; may be empty when there is only one
	TTL        time.Duration `yaml:"ttl"`           // 15 s; from 1 s to 10 min, and at least 3 attempts
	RenewEvery time.Duration `yaml:"renew_every"`   // 0: a third of the lock's ttl; negative: never; else from one attempt to half of ttl
	MaxHold    time.Duration `yaml:"max_hold"`      // 10 min: then renewal stops and the contexts of the lock end
	Attempt    time.Duration `yaml:"attempt"`       // 200 ms: one question to the store, waiting for a connection included; at most 2 s
	Wait       time.Duration `yaml:"wait"`          // 300 ms: all attempts of one Lock; at most 2 s
	Schedule   Schedule      `yaml:"wait_schedule"` // exp(20ms, 5, cap 2s): the pauses between tries, where the store cannot wake who waits
	LockDelay  time.Duration `yaml:"lock_delay"`    // 0: ttl on a strong chain without fencing, else none; negative: none. No grants for so long after the store may have lost its memory
	Budget     time.Duration `yaml:"budget"`        // 0: none. Waiting and work together; going past it is logged and told to the hooks
	Fencing    bool          `yaml:"fencing"`       // strong: true, weak: false. Shared grants carry a token
	Preset     Preset        `yaml:"preset"`        // none: what Resource, Business and Flow set in Go and a file reads first
	Shards     int           `yaml:"shards"`        // 0: a lock for each id. Else one coarse lock for the chain, spread over so many slots: 1 to 1024

	Ladder degrade.Policy       `yaml:",inline"` // class, version_guard, on_saturated, on_down and the thresholds
	Local  localfallback.Policy `yaml:"local"`   // the lock inside the process
	Audit  audit.Policy         `yaml:",inline"` // audit, on_full, audit_wait
}

// Strong returns the policy of a chain that never serves below shared: it fails fast
// instead, or answers optimistic where [degrade.Policy].VersionGuard is set.
func Strong(protects string, lost OnLost) Policy {
	p := defaults(degrade.Strong(), protects, lost)
	p.Fencing = true
	return p
}

// Weak returns the policy of a chain that may step down and be repaired afterwards.
func Weak(protects string, lost OnLost) Policy { return defaults(degrade.Weak(), protects, lost) }

// The numbers are those of the requirements: 200 ms an attempt, 300 ms a wait, 10 s and
// 3 holders in the process.
func defaults(ladder degrade.Policy, protects string, lost OnLost) Policy {
	return Policy{
		Protects: protects, OnLost: lost,
		TTL: 15 * time.Second, MaxHold: 10 * time.Minute,
		Attempt: 200 * time.Millisecond, Wait: 300 * time.Millisecond, Schedule: defaultSchedule,
		Ladder: ladder,
		Local:  localfallback.Policy{TTL: 10 * time.Second, Permits: 3, Keys: 100_000},
		Audit:  audit.Policy{Record: audit.RecordAll, OnFull: audit.Reject, Wait: audit.WaitBypass},
	}
}

// Validate reports every fault at once, each a [*tierlock.InvalidError] that names field,
// value and rule.
func (p *Policy) Validate() error {
	var errs []error
	bad := func(field string, value any, rule string) {
		errs = append(errs, tierlock.Invalid(field, fmt.Sprint(value), rule))
	}
	if p.Protects == "" {
		bad("protects", "", "say in a sentence what only one may do at a time")
	}
	switch {
	case p.OnLost == 0:
		bad("on_lost", "", "say cancel, fence or reconcile")
	case p.OnLost > Reconcile:
		bad("on_lost", uint8(p.OnLost), "say cancel, fence or reconcile")
	}
	if p.Attempt <= 0 || p.Attempt > maxWait {
		bad("attempt", p.Attempt, fmt.Sprintf("want above 0 and at most %v", maxWait))
	}
	if err := p.checkTTL(p.TTL); err != nil {
		errs = append(errs, err)
	}
	if err := checkWait(p.Wait); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, p.Schedule.validate(), p.Preset.validate(), checkShards(p.Shards), checkLockDelay(p.LockDelay))
	switch {
	case p.RenewEvery > 0 && p.RenewEvery < p.Attempt:
		bad("renew_every", p.RenewEvery, fmt.Sprintf("want at least attempt %v, so that one renewal is answered before the next, or below 0 for never", p.Attempt))
	case p.RenewEvery > p.TTL/2:
		bad("renew_every", p.RenewEvery, fmt.Sprintf("want at most half of ttl %v, so that one renewal may fail", p.TTL))
	}
	if p.MaxHold < p.TTL {
		bad("max_hold", p.MaxHold, fmt.Sprintf("want at least ttl %v", p.TTL))
	}
	if p.Budget < 0 {
		bad("budget", p.Budget, "want 0 for none, or above")
	}
	errs = append(errs, p.Ladder.Validate(), p.Local.Validate(), p.Audit.Validate())
	return errors.Join(errs...)
}

// checkTTL is the rule of a ttl, in a policy or of one call.
func (p *Policy) checkTTL(ttl time.Duration) error {
	switch {
	case ttl < minTTL || ttl > maxTTL:
		return tierlock.Invalid("ttl", ttl.String(), fmt.Sprintf("want %v to %v", minTTL, maxTTL))
	case ttl < attemptsTTL*p.Attempt:
		return tierlock.Invalid("ttl", ttl.String(), fmt.Sprintf("want at least %d times attempt %v", attemptsTTL, p.Attempt))
	case ttl%time.Millisecond != 0:
		return tierlock.Invalid("ttl", ttl.String(), "want whole milliseconds")
	}
	return nil
}

// checkWait is the rule of a wait, in a policy or of one call.
func checkWait(wait time.Duration) error {
	if wait < 0 || wait > maxWait {
		return tierlock.Invalid("wait", wait.String(), fmt.Sprintf("want 0 to %v", maxWait))
	}
	return nil
}

// renewEvery is how often a lock of that ttl is renewed; 0 is never.
func (p *Policy) renewEvery(ttl time.Duration) time.Duration {
	switch {
	case p.RenewEvery < 0:
		return 0
	case p.RenewEvery == 0 || p.RenewEvery > ttl/2:
		return ttl / 3
	}
	return p.RenewEvery
}

// under puts a prefix before the field of every InvalidError in err, which may be several
// joined ones.
func under(prefix string, err error) error {
	switch e := err.(type) { //nolint:errorlint // joined errors are taken apart here, not matched
	case nil:
		return nil
	case *tierlock.InvalidError:
		return tierlock.Invalid(prefix+e.Field, e.Value, e.Rule)
	case interface{ Unwrap() []error }:
		var errs []error
		for _, one := range e.Unwrap() {
			errs = append(errs, under(prefix, one))
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("%s %w", prefix, err)
}
