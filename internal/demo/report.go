//go:build !nodemo

package demo

import (
	"encoding/json"
	"io"
	"time"

	"github.com/tierlock/tierlock/gateway"
)

// Report is what the story came to: `--output json` prints it as one object.
type Report struct {
	// OK is true only when nothing was missing, unknown, missed, falsely accused, sold or
	// claimed once too often after repair, left behind, or let through stale; no strong
	// holds overlapped; stale writes were tried; and every tier served.
	OK       bool    `json:"ok"`
	Requests int64   `json:"requests"` // calls that got a verdict
	Seconds  float64 `json:"seconds"`

	Tiers    Tiers    `json:"tiers"`
	Outcomes Outcomes `json:"outcomes"` // their sum is Requests
	Flips    []Flip   `json:"flips"`

	Audit     AuditReport       `json:"audit"`
	Conflicts ConflictReport    `json:"conflicts"`
	Strong    StrongReport      `json:"strong"`
	Business  BusinessReport    `json:"business"`
	Orphans   int               `json:"orphan_locks"` // locks in the store whose caller got none, 10 s after they could have been given back
	Policy    map[string]Policy `json:"policy"`
}

// Tiers counts grants by tier, and the answers to go on optimistically.
type Tiers struct {
	Shared     int64 `json:"shared"`
	Optimistic int64 `json:"optimistic"`
	Local      int64 `json:"local"`
	Bypass     int64 `json:"bypass"`
}

// Outcomes counts verdicts.
type Outcomes struct {
	Success     int64 `json:"success"`
	Failure     int64 `json:"failure"`
	Timeout     int64 `json:"timeout"`
	SystemError int64 `json:"system_error"`
}

// Flip is one change of the tier that a chain's new requests get.
type Flip struct {
	At       float64 `json:"at"` // seconds since the start
	Instance string  `json:"instance"`
	Chain    string  `json:"chain"`
	From     string  `json:"from"`
	To       string  `json:"to"`
	Reason   string  `json:"reason"`
}

// AuditReport compares what callers were granted with what Kafka holds.
type AuditReport struct {
	BypassGrants  int64 `json:"bypass_grants"`
	EventsInKafka int64 `json:"events_in_kafka"`
	Missing       int64 `json:"missing"` // grants without their event, and breaks in the chain of prev
	Unknown       int64 `json:"unknown"` // events of no grant
}

// ConflictReport compares the oracle with the reconciliation.
type ConflictReport struct {
	Oracle   int `json:"oracle"`   // groups of holds that really overlapped
	Found    int `json:"found"`    // groups the reconciliation found
	Missed   int `json:"missed"`   // pairs that really overlapped and are in no finding
	False    int `json:"false"`    // findings called certain none of whose pairs can have overlapped
	Repaired int `json:"repaired"` // repairs applied
}

// StrongReport is about the chain that must never step below shared.
type StrongReport struct {
	Overlaps     int `json:"overlaps"`
	StaleTried   int `json:"stale_tried"` // writes on purpose after the end of the lock
	StaleRefused int `json:"stale_refused"`
}

// BusinessReport is what an accountant would find.
type BusinessReport struct {
	OverLimitBefore int64 `json:"coupons_over_limit_before"`
	OverLimitAfter  int64 `json:"coupons_over_limit_after"`
	StockNegative   int64 `json:"stock_negative"`
	DuplicateOrders int64 `json:"duplicate_orders"` // pieces that left the stock without an order, and orders that took none
}

// Policy is the part of a chain's policy that the story depends on.
type Policy struct {
	Class        string `json:"class"`
	Protects     string `json:"protects"`
	OnLost       string `json:"on_lost"`
	TTLMS        int64  `json:"ttl_ms"`
	AttemptMS    int64  `json:"attempt_ms"`
	WaitMS       int64  `json:"wait_ms"`
	Fencing      bool   `json:"fencing"`
	VersionGuard bool   `json:"version_guard"`
	OnSaturated  string `json:"on_saturated"`
	OnDown       string `json:"on_down"`
	SaturateInMS int64  `json:"saturate_in_ms"`
	Permits      int    `json:"local_permits"`
	Audit        string `json:"audit"`
}

func policyOf(p gateway.Policy) Policy {
	return Policy{
		Class: p.Ladder.Class.String(), Protects: p.Protects, OnLost: p.OnLost.String(),
		TTLMS: ms(p.TTL), AttemptMS: ms(p.Attempt), WaitMS: ms(p.Wait), Fencing: p.Fencing, VersionGuard: p.Ladder.VersionGuard,
		OnSaturated: p.Ladder.OnSaturated.String(), OnDown: p.Ladder.OnDown.String(), SaturateInMS: ms(p.Ladder.SaturateIn),
		Permits: p.Local.Permits, Audit: p.Audit.Record.String(),
	}
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

// judge sets OK.
func (r *Report) judge() { r.OK = len(r.faults()) == 0 }

// faults names what must be zero and is not, and what must not be zero and is.
func (r *Report) faults() []string {
	var names []string
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"audit.missing", r.Audit.Missing},
		{"audit.unknown", r.Audit.Unknown},
		{"conflicts.missed", int64(r.Conflicts.Missed)},
		{"conflicts.false", int64(r.Conflicts.False)},
		{"strong.overlaps", int64(r.Strong.Overlaps)},
		{"strong.stale_tried - stale_refused", int64(r.Strong.StaleTried - r.Strong.StaleRefused)},
		{"business.coupons_over_limit_after", r.Business.OverLimitAfter},
		{"business.stock_negative", r.Business.StockNegative},
		{"business.duplicate_orders", r.Business.DuplicateOrders},
		{"orphan_locks", int64(r.Orphans)},
	} {
		if f.n != 0 {
			names = append(names, f.name)
		}
	}
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"tiers.shared", r.Tiers.Shared},
		{"tiers.optimistic", r.Tiers.Optimistic},
		{"tiers.local", r.Tiers.Local},
		{"tiers.bypass", r.Tiers.Bypass},
		{"strong.stale_tried", int64(r.Strong.StaleTried)},
	} {
		if f.n == 0 {
			names = append(names, f.name+" is 0")
		}
	}
	return names
}

// writeJSON prints the report as exactly one object.
func (r *Report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}
