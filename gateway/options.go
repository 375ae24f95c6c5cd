package gateway

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// Option changes one call; what is the same for every call of a chain is in its policy.
// It is a value and no function, so that a call with options allocates nothing for them.
type Option struct {
	kind       optionKind
	span       time.Duration
	id         tierlock.RequestID
	entry      uint64
	business   *audit.Business
	optimistic func(context.Context) error
}

type optionKind uint8

const (
	optionTTL optionKind = iota + 1
	optionWait
	optionID
	optionReenter
	optionEntry
	optionNoRenew
	optionAbout
	optionOptimistic
)

// WithTTL replaces the policy's TTL: 1 s to 10 min, at least three attempts, whole
// milliseconds.
func WithTTL(ttl time.Duration) Option { return Option{kind: optionTTL, span: ttl} }

// WithWait replaces the policy's Wait: 0 to 2 s. TryLock ignores it.
func WithWait(wait time.Duration) Option { return Option{kind: optionWait, span: wait} }

// WithRequestID makes the call repeatable: the same id gets the same grant again, with its
// remaining time and first token, and a repeat never counts twice.
func WithRequestID(id tierlock.RequestID) Option { return Option{kind: optionID, id: id} }

// Reenter enters the lock of the same key that id holds, as a call under its [Lock.Context]
// does by itself, from wherever: another goroutine, another process, another language. The
// Lock returned is an entry of its own; the key is free when the last one is given back.
// It takes what the lock has — tier, token, time left — and extends nothing; the call waits
// for nobody. ErrLost if id does not hold the key (any more).
//
// A lock of another process is entered in the shared store only. It is renewed from here
// too, and its end event comes from each process when its own last entry leaves.
func Reenter(id tierlock.RequestID) Option { return Option{kind: optionReenter, id: id} }

// WithEntry names the entry of [Reenter], 1 to 2^53-1, so that a repeat changes nothing:
// with the same name it is the same entry. Without it a fresh one is drawn. With
// [Gateway.Attach] it says which entry the handle gives back.
func WithEntry(entry uint64) Option { return Option{kind: optionEntry, entry: entry} }

// WithoutRenew leaves the lock to its ttl: whoever took it renews it, or nobody.
func WithoutRenew() Option { return Option{kind: optionNoRenew} }

// About says what the work is, for the audit trail and for reconciliation. Each of its
// words has at most 256 bytes, as a key has, of UTF-8 without NUL and U+FFFD.
func About(b audit.Business) Option { return Option{kind: optionAbout, business: &b} }

// Optimistically gives [Chain.Do] the work to run where the answer is optimistic: one
// statement that compares and changes a version. Other calls ignore it.
func Optimistically(fn func(context.Context) error) Option {
	return Option{kind: optionOptimistic, optimistic: fn}
}

// apply checks o and puts it into the request.
func (o *Option) apply(r *request) error {
	switch o.kind {
	case optionTTL:
		r.ttl = o.span
		return r.policy.checkTTL(o.span)
	case optionWait:
		r.wait = o.span
		return checkWait(o.span)
	case optionID:
		if o.id.IsZero() {
			return tierlock.Invalid("request_id", "", "is all zero")
		}
		r.id, r.named = o.id, true
	case optionReenter:
		if o.id.IsZero() {
			return tierlock.Invalid("request_id", "", "is all zero")
		}
		r.id, r.named, r.reenters = o.id, true, true
	case optionEntry:
		if o.entry == 0 || o.entry > maxEntry {
			return tierlock.Invalid("entry", strconv.FormatUint(o.entry, 10), "want 1 to 2^53-1")
		}
		r.entry = o.entry
	case optionNoRenew:
		r.norenew = true
	case optionAbout:
		r.business = o.business
		return checkBusiness(o.business)
	case optionOptimistic:
		r.optimistic = o.optimistic
	}
	return nil
}

// maxWord bounds each word of a Business, so that no event outgrows what the trail takes.
const maxWord = 256

func checkBusiness(b *audit.Business) error {
	for _, word := range [...]struct{ field, value string }{{"type", b.Type}, {"id", b.ID}, {"op", b.Op}} {
		if n := len(word.value); n > maxWord {
			return tierlock.Invalid("business."+word.field, strings.ToValidUTF8(word.value[:maxWord], "")+"…", fmt.Sprintf("want at most %d bytes, got %d", maxWord, n))
		}
		// An event is JSON, where bytes that are no UTF-8 turn into U+FFFD, so that two ids
		// become one; and no column of text in PostgreSQL takes a NUL.
		for i, r := range word.value {
			if r == 0 || r == utf8.RuneError {
				shown := strconv.QuoteToASCII(word.value)
				return tierlock.Invalid("business."+word.field, shown[1:len(shown)-1], fmt.Sprintf("byte 0x%02x at %d: want UTF-8 without NUL and U+FFFD", word.value[i], i))
			}
		}
	}
	return nil
}
