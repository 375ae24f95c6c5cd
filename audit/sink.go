package audit

import (
	"context"
	"errors"
	"fmt"
)

// Sink is where a [Log] forwards to. A Sink is used by one goroutine at a time.
type Sink interface {
	// Partitions is how many there are; a Log asks until it gets an answer, and then once in
	// ten heartbeats: markers go to those that were added, keys move at the next Open.
	Partitions(ctx context.Context) (int, error)
	// Send returns one error per message: nil means that it is safe there. Messages of
	// one partition must land in the order given; after an error none later of that
	// partition may land in the same call. An error that matches [ErrPoison] says that
	// this message can never be taken; every other one is tried again for ever. It must
	// return soon after ctx ends: Close waits for it.
	Send(ctx context.Context, msgs []Message) []error
}

// ErrPoison marks a message that no retry can deliver.
var ErrPoison = errors.New("audit: message can never be delivered")

// ErrTooLarge is an [ErrPoison] that a larger bound would take.
var ErrTooLarge = fmt.Errorf("%w: too large", ErrPoison)

// Message is one copy of one event on its way.
type Message struct {
	Partition int
	Key       []byte
	Value     []byte
	Headers   []Header
	// Dead is why the message goes to the dead-letter destination instead; empty: it does not.
	Dead string
	// DeadClass is why in a word, [ClassTooLarge] or [ClassRefused], and Attempts how often it had been
	// sent by then, the last time included.
	DeadClass string
	Attempts  int
}

// The classes of dead letters that a forwarder writes.
const (
	ClassTooLarge = "too_large" // beyond what the topic takes
	ClassRefused  = "refused"   // for good, for another reason
)

// Header is one of a message's headers.
type Header struct {
	Key   string
	Value []byte
}
