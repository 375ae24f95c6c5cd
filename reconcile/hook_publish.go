package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// Message is what a [PublishHook] sends. Whoever receives it must take a second one with the
// same IdempotencyKey for the first: a process that dies between the send and its own note
// of it sends again.
type Message struct {
	Key            string // the business id, so that it keeps its place among the record's other messages
	Value          []byte
	IdempotencyKey string // see [Case.ID]
	Action         string
}

// Publisher sends to one topic. Kafka's is in kafkasource.
type Publisher interface {
	// Publish returns nil once m cannot be lost any more. An error means that it may have
	// been sent all the same.
	Publish(ctx context.Context, m Message) error
}

// PublishHook repairs by sending the business's message again: the consumers of that topic
// make right what is wrong. It is the Repair of a [Hook]; its Check is of another kind.
//
// With a database the message is written down before it is sent, in the table
// tierlock_messages, and a repeat sends what is written, byte for byte. A message that is
// known to be sent is not sent again.
type PublishHook struct{ cfg PublishHookConfig }

// PublishHookConfig of a [PublishHook].
type PublishHookConfig struct {
	Publisher Publisher // required
	Check     Checker   // required: a [SQLHook] or [Webhook] that only checks
	Action    string    // default "repair"

	// DB remembers messages; nil: nothing is remembered, and as long as the check finds
	// something wrong a case that comes again is sent again, the same.
	DB      *sql.DB
	Dialect Dialect // required with DB
	// Message is a query with one row of one text or byte column, the message's value, with
	// the words of [SQLHookConfig]. Needs DB. Default: a [Republished] as JSON.
	Message string
}

// Republished is the value of a message unless a query makes it. Nothing in it depends on
// how holds are grouped or on when it is sent, so that a repeat is the same message.
type Republished struct {
	Repair    string `json:"repair"` // see [Case.ID]
	Action    string `json:"action"`
	Type      string `json:"type"`
	ID        string `json:"id"`
	Op        string `json:"op,omitempty"`
	Delta     int64  `json:"delta,omitempty"`
	Key       string `json:"key"`        // lock key of the losing hold
	Holder    string `json:"holder"`     // its fingerprint
	GrantedUS int64  `json:"granted_us"` // Unix microseconds
}

// NewPublishHook returns the [Hook] that cfg describes. It does no I/O; [CreateRepairs]
// makes the table it needs.
func NewPublishHook(cfg PublishHookConfig) (Hook, error) {
	var errs []error
	if cfg.Publisher == nil {
		errs = append(errs, tierlock.Invalid("publisher", "nil", "is required"))
	}
	if cfg.Check == nil {
		errs = append(errs, tierlock.Invalid("check", "nil", "is required: a repair without a check would fix what is right"))
	}
	if cfg.DB != nil {
		errs = append(errs, cfg.Dialect.Validate())
	}
	if strings.TrimSpace(cfg.Message) != "" {
		if cfg.DB == nil {
			errs = append(errs, tierlock.Invalid("message", cfg.Message, "is a query: want a database beside it"))
		}
		_, _, err := expand(cfg.Message, cfg.Dialect, func(string) any { return nil })
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Hook{}, err
	}
	h := &PublishHook{cfg: cfg}
	hook := Hook{Action: cfg.Action, Check: cfg.Check, Repair: h}
	if cfg.DB != nil {
		hook.Repair = rememberingHook{h}
	}
	return hook, nil
}

// rememberingHook is a [PublishHook] with a database: only that one can tell what it did.
type rememberingHook struct{ *PublishHook }

// Applied implements [Rememberer]. A message that is written down and of which nobody knows
// whether it was sent counts: it may be why nothing is wrong any more.
func (h rememberingHook) Applied(ctx context.Context, c Case) (bool, error) {
	_, found, err := h.stored(ctx, c)
	return found, err
}

// finished tells whether the message is known to be sent. One that is only written down is
// still to go out.
func (h rememberingHook) finished(ctx context.Context, c Case) (bool, error) {
	was, found, err := h.stored(ctx, c)
	return found && was.sent, err
}

// Repair implements [Repairer].
func (h *PublishHook) Repair(ctx context.Context, c Case) (Result, error) {
	m := Message{Key: c.Business.ID, IdempotencyKey: c.ID, Action: c.Action}
	if h.cfg.DB != nil {
		was, found, err := h.stored(ctx, c)
		switch {
		case err != nil:
			return ResultFailed, err
		case found && was.sent:
			return ResultAlready, nil
		case found:
			m.Value = was.value
			return h.send(ctx, m)
		}
	}
	wrong, err := h.cfg.Check.Check(ctx, c)
	if err != nil {
		return ResultFailed, err
	}
	if wrong <= 0 {
		return ResultClean, nil
	}
	if c.Most > 0 && wrong > c.Most {
		return ResultFailed, ErrMore
	}
	if m.Value, err = h.value(ctx, c); err != nil {
		return ResultFailed, err
	}
	if err := h.remember(ctx, c, m); err != nil {
		return ResultFailed, err
	}
	return h.send(ctx, m)
}

// send publishes what is written down, and then writes down that it is sent. A process that
// dies in between sends it once more.
func (h *PublishHook) send(ctx context.Context, m Message) (Result, error) {
	if err := h.cfg.Publisher.Publish(ctx, m); err != nil {
		return ResultFailed, fmt.Errorf("reconcile: publish: %w", err)
	}
	if h.cfg.DB == nil {
		return ResultApplied, nil
	}
	_, err := h.cfg.DB.ExecContext(ctx, h.cfg.Dialect.bind(`UPDATE tierlock_messages SET sent_us = ? WHERE repair_key = ?`),
		time.Now().UnixMicro(), m.IdempotencyKey)
	if err != nil {
		return ResultFailed, fmt.Errorf("reconcile: remember message: %w", err)
	}
	return ResultApplied, nil
}

// value is what the message says.
func (h *PublishHook) value(ctx context.Context, c Case) ([]byte, error) {
	if strings.TrimSpace(h.cfg.Message) == "" {
		return json.Marshal(Republished{
			Repair: c.ID, Action: c.Action, Type: c.Business.Type, ID: c.Business.ID, Op: c.Business.Op, Delta: c.Business.Delta,
			Key: c.Loser.Key.String(), Holder: c.Loser.Holder, GrantedUS: c.Loser.GrantedAt.UnixMicro(),
		})
	}
	query, args, err := expand(h.cfg.Message, h.cfg.Dialect, c.value)
	if err != nil {
		return nil, err
	}
	var value []byte
	err = h.cfg.DB.QueryRowContext(ctx, query, args...).Scan(&value)
	if err == nil && len(value) == 0 {
		err = errors.New("the query gave an empty message")
	}
	if err != nil {
		return nil, fmt.Errorf("reconcile: message: %w", err)
	}
	return value, nil
}

// remember writes the message down before anybody can have got it.
func (h *PublishHook) remember(ctx context.Context, c Case, m Message) error {
	if h.cfg.DB == nil {
		return nil
	}
	_, err := h.cfg.DB.ExecContext(ctx, h.cfg.Dialect.bind(`INSERT INTO tierlock_messages
  (repair_key, finding_id, action, business_type, business_id, value, made_us, sent_us) VALUES (?, ?, ?, ?, ?, ?, ?, 0)`),
		c.ID, c.Finding.ID, c.Action, c.Business.Type, c.Business.ID, m.Value, time.Now().UnixMicro())
	if err != nil {
		return fmt.Errorf("reconcile: remember message: %w", err)
	}
	return nil
}

// storedMessage is a row of tierlock_messages.
type storedMessage struct {
	value []byte
	sent  bool
}

func (h *PublishHook) stored(ctx context.Context, c Case) (m storedMessage, found bool, err error) {
	var sentUS int64
	err = h.cfg.DB.QueryRowContext(ctx, h.cfg.Dialect.bind(`SELECT value, sent_us FROM tierlock_messages WHERE repair_key = ?`), c.ID).
		Scan(&m.value, &sentUS)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return m, false, nil
	case err != nil:
		return m, false, fmt.Errorf("reconcile: look up message: %w", err)
	}
	m.sent = sentUS > 0
	return m, true, nil
}
