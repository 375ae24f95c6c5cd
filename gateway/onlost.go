package gateway

import (
	"strconv"

	"github.com/tierlock/tierlock"
)

// OnLost says what becomes of the work when its lock is lost: the owner's answer to the
// question every lock leaves open. There is no default and zero is invalid. The contexts
// of a lost lock end in every case; OnLost tells readers and reports what that means.
type OnLost uint8

// The answers.
const (
	Cancel    OnLost = iota + 1 // the context ends and the work stops with it
	Fence                       // the resource refuses the older token
	Reconcile                   // the work may have gone on; a job repairs
)

var lostWords = [...]string{Cancel: "cancel", Fence: "fence", Reconcile: "reconcile"}

// String returns the word; "invalid" for what is none.
func (o OnLost) String() string {
	if o < Cancel || o > Reconcile {
		return "invalid"
	}
	return lostWords[o]
}

// MarshalText returns the word; the zero OnLost has none.
func (o OnLost) MarshalText() ([]byte, error) {
	if o < Cancel || o > Reconcile {
		return nil, tierlock.Invalid("on_lost", strconv.Itoa(int(o)), "want cancel, fence or reconcile")
	}
	return []byte(lostWords[o]), nil
}

// UnmarshalText accepts cancel, fence and reconcile.
func (o *OnLost) UnmarshalText(text []byte) error {
	for i, word := range lostWords {
		if word != "" && word == string(text) {
			*o = OnLost(i)
			return nil
		}
	}
	return tierlock.Invalid("on_lost", string(text), "want cancel, fence or reconcile")
}
