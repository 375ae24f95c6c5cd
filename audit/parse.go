package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierlock/tierlock"
)

// wire is an event as it stands in JSON; [Event.AppendJSON] writes the same names.
type wire struct {
	V        int    `json:"v"`
	Type     Type   `json:"type"`
	ID       string `json:"id"`
	Producer string `json:"producer"`
	Epoch    uint64 `json:"epoch"`
	Seq      uint64 `json:"seq"`
	Prev     uint64 `json:"prev"`

	Chain      string          `json:"chain"`
	Key        string          `json:"key"`
	Holder     string          `json:"holder"`
	Tier       string          `json:"tier"`
	Store      string          `json:"store"`
	Exclusive  bool            `json:"exclusive"`
	Token      *tierlock.Token `json:"token"`
	How        How             `json:"how"`
	Outcome    Work            `json:"outcome"`
	GrantedAt  time.Time       `json:"granted_at"`
	EndedAt    time.Time       `json:"ended_at"`
	TTL        int64           `json:"ttl_ms"`
	MaxHold    int64           `json:"max_hold_ms"`
	ClockError int64           `json:"clock_error_us"`
	Reason     tierlock.Reason `json:"reason"`
	Switch     struct {
		Version uint64 `json:"version"`
		Reason  string `json:"reason"`
	} `json:"switch"`
	Business struct {
		Type   string `json:"type"`
		ID     string `json:"id"`
		Op     string `json:"op"`
		Delta  int64  `json:"delta"`
		Before *int64 `json:"before"`
		After  *int64 `json:"after"`
	} `json:"business"`

	At         time.Time         `json:"at"`
	First      uint64            `json:"first"`
	Last       uint64            `json:"last"`
	Oldest     time.Time         `json:"oldest_unsent"`
	Applied    uint64            `json:"switch_version"`
	Refused    Refused           `json:"refused"`
	PolicyHash string            `json:"policy_hash"`
	Tiers      map[string]string `json:"tiers"`
	Steps      []wireStep        `json:"steps"`
	Replaced   []wireReplaced    `json:"replaced"`
	Sealed     uint64            `json:"sealed"`
	Clean      bool              `json:"clean"`
	From       uint64            `json:"from"`
	To         uint64            `json:"to"`
	Count      uint64            `json:"count"`
	Cause      Cause             `json:"cause"`
}

// known are the names of wire's fields; every other one is kept in Extra.
var known = map[string]bool{
	"v": true, "type": true, "id": true, "producer": true, "epoch": true, "seq": true, "prev": true,
	"chain": true, "key": true, "holder": true, "tier": true, "store": true, "exclusive": true, "token": true,
	"how": true, "outcome": true, "granted_at": true, "ended_at": true, "ttl_ms": true, "max_hold_ms": true,
	"clock_error_us": true, "reason": true, "switch": true, "business": true, "at": true, "first": true,
	"last": true, "oldest_unsent": true, "refused": true, "switch_version": true, "policy_hash": true, "tiers": true,
	"steps": true, "replaced": true, "sealed": true, "clean": true, "from": true, "to": true, "count": true, "cause": true,
}

// Parse reads one event. Its error is an [*tierlock.InvalidError], or several joined, fit
// to go to the dead-letter topic as the reason: it names the field and the rule.
func Parse(text []byte) (Event, error) {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return Event{}, malformed(err)
	}
	e, err := w.event()
	if err != nil {
		return Event{}, err
	}
	e.Extra, err = extra(text)
	return e, err
}

// malformed tells in which field the JSON is wrong, and never repeats the text.
func malformed(err error) error {
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return tierlock.Invalid(cmp.Or(bad.Field, "event"), bad.Value, "want "+bad.Type.String())
	}
	return tierlock.Invalid("event", "", "not one JSON object: "+err.Error())
}

// extra collects the fields this version does not know.
func extra(text []byte) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, malformed(err)
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return known[name] })
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// event checks w and turns it into an Event.
func (w *wire) event() (Event, error) {
	var faults []error
	refuse := func(field, value, rule string) {
		faults = append(faults, tierlock.Invalid(field, clip([]byte(value)), rule))
	}
	e := Event{
		Type: w.Type, Chain: w.Chain, Holder: w.Holder, Store: w.Store, Exclusive: w.Exclusive,
		GrantedAt: w.GrantedAt, EndedAt: w.EndedAt, TTL: time.Duration(w.TTL) * time.Millisecond,
		MaxHold: time.Duration(w.MaxHold) * time.Millisecond, ClockError: time.Duration(w.ClockError) * time.Microsecond,
		How: w.How, Outcome: w.Outcome, Reason: w.Reason, Switch: Switch(w.Switch), Business: Business(w.Business),
		Producer: w.Producer, Epoch: w.Epoch, Seq: w.Seq, Prev: w.Prev,
		At: w.At, First: w.First, Last: w.Last, Oldest: w.Oldest, Applied: w.Applied, Refused: w.Refused, PolicyHash: w.PolicyHash,
		Tiers: w.Tiers, Sealed: w.Sealed, Clean: w.Clean, From: w.From, To: w.To, Count: w.Count, Cause: w.Cause,
	}
	if w.Token != nil {
		e.Token = *w.Token
	}
	w.readNews(&e)
	if w.V != formatVersion {
		refuse("v", fmt.Sprint(w.V), "this version reads 1")
	}
	if w.Producer == "" {
		refuse("producer", "", "is required")
	}
	if w.Epoch == 0 || w.Seq == 0 {
		refuse("seq", fmt.Sprintf("%d/%d", w.Epoch, w.Seq), "epoch and seq start at 1")
	} else if w.Prev >= w.Seq {
		refuse("prev", fmt.Sprint(w.Prev), "must be below seq")
	}
	if w.ID != e.EventID() {
		refuse("id", w.ID, "must be producer/epoch/seq")
	}
	switch {
	case w.Type.Marker():
		if w.At.IsZero() {
			refuse("at", "", "is required")
		}
	case slices.Contains([]Type{TypeAcquire, TypeEnd, TypeOptimistic}, w.Type):
		faults = append(faults, w.hold(&e)...)
	default:
		refuse("type", string(w.Type), "want one of acquire, end, optimistic, hello, heartbeat, seal, gap")
	}
	if len(faults) > 0 {
		return Event{}, errors.Join(faults...)
	}
	return e, nil
}

// hold checks what acquire, end and optimistic must carry.
func (w *wire) hold(e *Event) (faults []error) {
	refuse := func(field, value, rule string) {
		faults = append(faults, tierlock.Invalid(field, clip([]byte(value)), rule))
	}
	var err error
	if e.Key, err = tierlock.ParseKey(w.Key); err != nil {
		faults = append(faults, err)
	}
	if err := e.Tier.UnmarshalText([]byte(w.Tier)); err != nil {
		faults = append(faults, err)
	}
	if w.Holder == "" {
		refuse("holder", "", "is required")
	}
	if w.GrantedAt.IsZero() {
		refuse("granted_at", "", "is required")
	}
	if w.TTL < 0 || w.TTL > maxMillis || w.MaxHold < 0 || w.MaxHold > maxMillis {
		refuse("ttl_ms", fmt.Sprintf("%d, max_hold_ms %d", w.TTL, w.MaxHold), "out of range")
	}
	if w.Type == TypeEnd {
		if w.EndedAt.IsZero() {
			refuse("ended_at", "", "is required")
		}
		if !slices.Contains([]How{Released, Lost, Expired, Forced}, w.How) {
			refuse("how", string(w.How), "want one of released, lost, expired, forced")
		}
	}
	if w.ClockError < 0 || w.ClockError > maxMillis*1000 {
		refuse("clock_error_us", fmt.Sprint(w.ClockError), "out of range")
	}
	return faults
}

// maxMillis keeps a duration far from overflow: about 31 years.
const maxMillis = 1e12
