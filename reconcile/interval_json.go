package reconcile

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// wireInterval is an interval as findings carry it; names are those of events.
type wireInterval struct {
	Event      string         `json:"event"`
	Chain      string         `json:"chain"`
	Key        tierlock.Key   `json:"key"`
	Holder     string         `json:"holder"`
	Tier       tierlock.Tier  `json:"tier"`
	Store      string         `json:"store,omitempty"`
	Token      tierlock.Token `json:"token,omitempty"`
	Producer   string         `json:"producer"`
	Epoch      uint64         `json:"epoch"`
	AcquireSeq uint64         `json:"acquire_seq,omitempty"`
	EndSeq     uint64         `json:"end_seq,omitempty"`
	GrantedAt  time.Time      `json:"granted_at"`
	EndedAt    time.Time      `json:"ended_at,omitzero"`
	Latest     time.Time      `json:"latest_end"`
	TTLMS      int64          `json:"ttl_ms,omitempty"`
	ErrorUS    int64          `json:"clock_error_us,omitempty"`
	How        audit.How      `json:"how,omitempty"`
	Outcome    audit.Work     `json:"outcome,omitempty"`
	Switch     wireSwitch     `json:"switch,omitzero"`
	Business   wireBusiness   `json:"business,omitzero"`
}

type wireSwitch struct {
	Version uint64 `json:"version"`
	Reason  string `json:"reason"`
}

type wireBusiness struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Op     string `json:"op,omitempty"`
	Delta  int64  `json:"delta,omitempty"`
	Before *int64 `json:"before,omitempty"`
	After  *int64 `json:"after,omitempty"`
}

// MarshalJSON writes times as UTC and durations as events do.
func (iv Interval) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // whoever writes the whole says whether it goes into a page
	err := enc.Encode(wireInterval{
		Event: iv.Event, Chain: iv.Chain, Key: iv.Key, Holder: iv.Holder, Tier: iv.Tier, Store: iv.Store, Token: iv.Token,
		Producer: iv.Producer, Epoch: iv.Epoch, AcquireSeq: iv.AcquireSeq, EndSeq: iv.EndSeq,
		GrantedAt: iv.GrantedAt.UTC(), EndedAt: iv.EndedAt.UTC(), Latest: iv.Latest.UTC(),
		TTLMS: iv.TTL.Milliseconds(), ErrorUS: iv.Error.Microseconds(),
		How: iv.How, Outcome: iv.Outcome, Switch: wireSwitch(iv.Switch), Business: wireBusiness(iv.Business),
	})
	return text.Bytes(), err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (iv *Interval) UnmarshalJSON(text []byte) error {
	var w wireInterval
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*iv = Interval{
		Event: w.Event, Chain: w.Chain, Key: w.Key, Holder: w.Holder, Tier: w.Tier, Store: w.Store, Token: w.Token,
		Producer: w.Producer, Epoch: w.Epoch, AcquireSeq: w.AcquireSeq, EndSeq: w.EndSeq,
		GrantedAt: w.GrantedAt, EndedAt: w.EndedAt, Latest: w.Latest,
		TTL: time.Duration(w.TTLMS) * time.Millisecond, Error: time.Duration(w.ErrorUS) * time.Microsecond,
		How: w.How, Outcome: w.Outcome, Switch: audit.Switch(w.Switch), Business: audit.Business(w.Business),
	}
	return nil
}
