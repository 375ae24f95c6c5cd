package reconcile

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tierlock/tierlock"
)

// The faults of a yes or a no.
var (
	ErrNoRequest  = errors.New("reconcile: nobody asks for this repair")
	ErrOwnRequest = errors.New("reconcile: who asked for a repair may not approve it")
	ErrDecided    = errors.New("reconcile: this repair is decided already")
	ErrAmount     = errors.New("reconcile: another amount is asked for now")
)

// Request asks people for one repair.
type Request struct {
	Case      Case   // without members
	Partition int    // whose owner repairs
	Amount    int64  // how much the check found wrong: a yes is for so much and no more
	Approvers int    // different people who must say yes
	AskedBy   string // who began the run; "": not known
	Valid     time.Duration
}

// Approval is a [Request] as it stands.
type Approval struct {
	Request
	Round      int // of this key: the next one begins when more is wrong, or when a yes has expired
	AskedAt    time.Time
	Votes      []Vote // a yes each, also expired ones
	RejectedBy string // "": nobody
	RejectedAt time.Time
	Reason     string
	Result     Result // of the repair; "": not done
	DoneAt     time.Time
}

// Vote is one person's yes.
type Vote struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Status is what a request waits for.
type Status string

// The statuses.
const (
	StatusPending  Status = "pending"  // for people
	StatusApproved Status = "approved" // for its lock, for quiet, for the caps
	StatusRejected Status = "rejected"
	StatusDone     Status = "done"
)

// Status at now: a yes expires.
func (a *Approval) Status(now time.Time) Status {
	switch {
	case !a.DoneAt.IsZero() && a.Result != ResultRejected:
		return StatusDone
	case a.RejectedBy != "":
		return StatusRejected
	case len(a.Yes(now)) >= a.Approvers:
		return StatusApproved
	}
	return StatusPending
}

// Yes are the people whose yes counts at now.
func (a *Approval) Yes(now time.Time) (names []string) {
	for _, v := range a.Votes {
		if v.At.Add(a.Valid).After(now) {
			names = append(names, v.By)
		}
	}
	return names
}

// Waits says what a pending request waits for, as "1 approval, beside anna"; "": nothing.
func (a *Approval) Waits(now time.Time) string {
	if a.Status(now) != StatusPending {
		return ""
	}
	yes := a.Yes(now)
	text := strconv.Itoa(a.Approvers-len(yes)) + " approval"
	if a.Approvers-len(yes) > 1 {
		text += "s"
	}
	if len(yes) > 0 {
		text += ", beside " + strings.Join(yes, ", ")
	}
	return text
}

// Approvals keeps what repairs wait for people, durably: once Ask has returned, nothing
// else needs to remember the case. [SQLApprovals] is one.
type Approvals interface {
	// Ask makes a request stand for r's case and returns it. Where one stands already for as
	// much or more it is that one; a rejected one stays rejected until more is wrong.
	Ask(ctx context.Context, r Request) (Approval, error)
	// Decided are requests, the oldest first, that are approved now, or rejected, and not
	// settled.
	Decided(ctx context.Context, now time.Time, most int) ([]Approval, error)
	// Last is the last round of a repair's request; known is false where nobody was asked.
	Last(ctx context.Context, repairKey string) (a Approval, known bool, err error)
	// Settle writes down what has become of a case's request; none is no fault.
	Settle(ctx context.Context, repairKey string, result Result) error
}

// Pender is an [Approvals] that can count the requests that wait for people, so that
// [Stats].Pending tells them.
type Pender interface {
	Pending(ctx context.Context, now time.Time) (n int, err error)
}

// Name reads a person's name: without regard to case and to blanks around it, so that one
// person is not two.
func Name(field, text string) (string, error) {
	name := strings.ToLower(strings.TrimSpace(text))
	switch {
	case name == "":
		return "", tierlock.Invalid(field, text, "want a name")
	case len(name) > 100:
		return "", tierlock.Invalid(field, text[:20]+"…", "want a name of 100 bytes at most")
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", tierlock.Invalid(field, strconv.Quote(text), "want a name that can be printed")
	}
	return name, nil
}
