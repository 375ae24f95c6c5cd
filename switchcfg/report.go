package switchcfg

import "time"

// Report is how following stands.
type Report struct {
	Version   uint64    // of the document in force; 0 while there is none
	Hash      string    // of the document in force; "" while there is none
	Confirmed time.Time // when the source last gave the document in force; zero: never, it is the last good one or none
	Fault     *Fault    // why the source's last answer is not in force; nil: it is, or it is withheld
	Withheld  uint64    // version that the source gives and whose canary leaves this instance out; 0: none
	Edge      bool      // Fault differs from the last report's in more than its time: raise or end an alarm now
}

// Fault is an answer of the source, or a lack of one, that changed nothing. The last good
// document stays in force.
type Fault struct {
	Why     Why
	Version uint64 // of the refused document; 0 where it has none
	Err     error
}

// Error is the word and what stands behind it.
func (f *Fault) Error() string { return string(f.Why) + ": " + f.Err.Error() }

// Unwrap returns what stands behind the word.
func (f *Fault) Unwrap() error { return f.Err }

// Why says in one word of a closed set why nothing changed; it is a metric label.
type Why string

// The whys.
const (
	WhyUnanswered Why = "unanswered" // no answer, or an error
	WhyEmpty      Why = "empty"      // nothing there: deleted, or not yet published
	WhyUnreadable Why = "unreadable" // no YAML, a field that is not known, of the wrong type …
	WhyUnsigned   Why = "unsigned"   // not signed, or by none of the keys
	WhyInvalid    Why = "invalid"    // readable, but against the document's own rules
	WhyOlder      Why = "older"      // a lower version than the one in force
	WhyConflict   Why = "conflict"   // the version in force with other content
	WhyExpired    Why = "expired"    // newer, but every order in it has passed
	WhyRefused    Why = "refused"    // whoever applies it said no: a strong chain without break_glass
)

// Whys lists every Why, for metrics that show a zero before the first fault.
func Whys() []Why {
	return []Why{WhyUnanswered, WhyEmpty, WhyUnreadable, WhyUnsigned, WhyInvalid, WhyOlder, WhyConflict, WhyExpired, WhyRefused}
}
