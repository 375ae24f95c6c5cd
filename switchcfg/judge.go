package switchcfg

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"
)

// judge decides which of the source's answers goes into force. It does no I/O.
type judge struct {
	apply    func(Document) error
	instance string
	canaries bool // of others count too
	keys     []ed25519.PublicKey

	document  Document // in force, with the orders that have passed since
	version   uint64   // of document; 0 while there is none
	hash      string
	confirmed time.Time
	fault     *Fault // of the last answer
	withheld  uint64 // version of the last answer whose canary leaves the instance out; 0: it was another one
}

// restore puts a kept document in force, without the orders that have passed: a switch
// that has ended is not switched on by a restart. Its version counts all the same.
func (j *judge) restore(d Document, now time.Time) (passed []string, err error) {
	if err := j.verify(d); err != nil {
		return nil, err
	}
	live, passed := d.Live(now)
	if err := live.Check(now); err != nil {
		return passed, err
	}
	if err := j.apply(live); err != nil {
		return passed, err
	}
	j.document, j.version, j.hash = d, d.Version, d.Hash()
	return passed, nil
}

// rule acts on one answer and returns why it is not in force afterwards; nil if it is.
func (j *judge) rule(a answer, now time.Time) *Fault {
	j.withheld = 0
	if a.err != nil {
		return &Fault{WhyUnanswered, 0, a.err}
	}
	if len(bytes.TrimSpace(a.text)) == 0 {
		return &Fault{WhyEmpty, 0, errors.New("the document is empty: to end a switch, publish a newer version with mode auto")}
	}
	d, err := Parse(a.text)
	if err != nil {
		return &Fault{WhyUnreadable, 0, err}
	}
	if err := j.verify(d); err != nil {
		return &Fault{WhyUnsigned, d.Version, err}
	}
	if d.Version == j.version && d.Hash() == j.hash && j.version > 0 {
		j.confirmed = now
		return nil
	}
	live, passed := d.Live(now)
	if err := live.Check(now); err != nil {
		return &Fault{WhyInvalid, d.Version, err}
	}
	switch {
	case d.Version < j.version:
		return &Fault{WhyOlder, d.Version, fmt.Errorf("version %d is in force", j.version)}
	case d.Version == j.version:
		return &Fault{WhyConflict, d.Version, fmt.Errorf("version %d is in force with other content: a change needs a higher version", j.version)}
	case !j.canaries && !d.Canary.Covers(j.instance):
		j.withheld = d.Version
		return nil
	case len(passed) > 0 && len(passed) == len(d.Chains) && len(d.Policies) == 0:
		return &Fault{WhyExpired, d.Version, fmt.Errorf("every order has passed: %q", passed)}
	}
	if err := j.apply(live); err != nil {
		return &Fault{WhyRefused, d.Version, err}
	}
	j.document, j.version, j.hash, j.confirmed = d, d.Version, d.Hash(), now
	return nil
}

// verify holds d's signature against the keys, if there are any.
func (j *judge) verify(d Document) error {
	if len(j.keys) == 0 {
		return nil
	}
	return d.Verify(j.keys...)
}

// like says whether two faults are one alarm.
func (f *Fault) like(g *Fault) bool {
	if f == nil || g == nil {
		return f == nil && g == nil
	}
	return f.Why == g.Why && f.Version == g.Version && (f.Why == WhyUnanswered || f.Err.Error() == g.Err.Error())
}
