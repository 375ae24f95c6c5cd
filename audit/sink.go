package audit

import (
	"context"
	"errors"
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

// Message is one copy of one event on its way.
type Message struct {
	Partition int
	Key       []byte
	Value     []byte
	Headers   []Header
	// Dead is why the message goes to the dead-letter destination instead; empty: it does not.
	Dead string
}

// Header is one of a message's headers.
type Header struct {
	Key   string
	Value []byte
}
