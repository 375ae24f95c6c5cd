//go:build !nodemo

package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// introduce says what runs, on what, and which of the product's times are shortened.
func (s *story) introduce() {
	v, t := s.view, &s.timetable
	v.say("%s", v.paint(bold, "tierlock demo")+": two instances of a shop, one store, one bad day")
	for _, part := range slices.Sorted(maps.Keys(s.servers.names)) {
		v.say("  %-9s %s", part, s.servers.names[part])
	}
	v.say("  order     strong: never below the real lock, but by version where the store is silent; tokens guard the stock")
	v.say("  coupon    weak: steps down to a local lock, or to none at all when an operator says so, and is repaired")
	v.say("  shortened %s", strings.Join(t.shortened(), ", "))
	if s.replay != nil {
		v.say("  trace     %s from %s, %.0f times as fast: %v; claims of the trace are few, so synthetic ones run beside them",
			s.options.trace, s.replay.window.From.Format(time.DateTime), s.replay.window.Speed, s.replay.length.Round(100*time.Millisecond))
	}
}

// shortened lists what a production setup would leave at its default.
func (t *Timetable) shortened() []string {
	return []string{
		fmt.Sprintf("wire %d (64)", t.Wire), fmt.Sprintf("wait %v (300ms)", t.Attempt+patience),
		fmt.Sprintf("saturate_in %v (5s)", t.SaturateIn), fmt.Sprintf("relax_in %v (2s)", t.RelaxIn), fmt.Sprintf("steady_in %v (1m)", t.SteadyIn), fmt.Sprintf("ramp_every %v (1s)", t.RampEvery),
		fmt.Sprintf("heartbeat %v (5s)", t.Heartbeat), fmt.Sprintf("quiet before repair %v (20s)", t.Quiet), fmt.Sprintf("idle %v (1h)", t.Idle),
		fmt.Sprintf("ttl of one sleeping holder %v", t.StaleTTL),
	}
}

// showReconciled tells what one pass of the job came to.
func (s *story) showReconciled(rep reconcile.Report) {
	pass := "dry run"
	if !rep.DryRun {
		pass = "applied"
	}
	var causes []string
	for _, c := range slices.Sorted(maps.Keys(rep.Causes)) {
		causes = append(causes, fmt.Sprintf("%d %s", rep.Causes[c], c))
	}
	var repairs []string
	for _, r := range slices.Sorted(maps.Keys(rep.Repairs)) {
		repairs = append(repairs, fmt.Sprintf("%d %s", rep.Repairs[r], r))
	}
	s.view.say("  %s: %d records, %d holds, %d findings (%d certain): %s; repairs: %s", pass,
		rep.Records, rep.Holds, rep.Findings, rep.Certain, orNone(causes), orNone(repairs))
	for _, g := range rep.Missing {
		s.view.say("  missing events: partition %d, %s, %d to %d (%s)", g.Partition, g.Producer, g.From, g.To, g.Cause)
	}
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// summarize prints the report for a person.
func (v *view) summarize(r *Report) {
	w := tabwriter.NewWriter(v.w, 2, 4, 2, ' ', 0)
	row := func(name string, n any, what string) { fmt.Fprintf(w, "  %s\t%v\t%s\n", name, n, what) }
	section := func(name string) { flush(w); fmt.Fprintf(v.w, "\n%s\n", v.paint(bold, name)) }

	section(fmt.Sprintf("%d requests in %.1f s", r.Requests, r.Seconds))
	row("success", r.Outcomes.Success, "had the lock of some tier")
	row("failure", r.Outcomes.Failure, "somebody else held it")
	row("timeout", r.Outcomes.Timeout, "no answer in time; of these went on by version: "+fmt.Sprint(r.Tiers.Optimistic))
	row("system_error", r.Outcomes.SystemError, "refused: nothing lower is allowed")
	section("which tier served")
	row("shared", r.Tiers.Shared, "the real lock")
	row("optimistic", r.Tiers.Optimistic, "nothing held, the row's version compared")
	row("local", r.Tiers.Local, "a lock inside one instance")
	row("bypass", r.Tiers.Bypass, "nothing at all, by an operator's order, every one on disk first")
	section("the audit trail")
	row("events in Kafka", r.Audit.EventsInKafka, "")
	row("missing", r.Audit.Missing, "grants whose events are not there")
	row("unknown", r.Audit.Unknown, "events of grants that nobody got")
	section("what overlapped")
	row("really", r.Conflicts.Oracle, "groups of people inside at once, by the demo's own clock")
	row("found", r.Conflicts.Found, "groups of locks held at once, by the reconciliation, from the events alone: held longer than worked in")
	row("missed", r.Conflicts.Missed, "pairs that are in no finding")
	row("false", r.Conflicts.False, "findings called certain that cannot have been")
	section("the strong chain")
	row("overlaps", r.Strong.Overlaps, "of its holds")
	row("stale writes", fmt.Sprintf("%d of %d refused", r.Strong.StaleRefused, r.Strong.StaleTried), "by holders who slept past their lock")
	row("locks left behind", r.Orphans, "in the store, of callers who got none")
	section("the shop")
	row("coupons too many", fmt.Sprintf("%d → %d", r.Business.OverLimitBefore, r.Business.OverLimitAfter), fmt.Sprintf("after %d repairs", r.Conflicts.Repaired))
	row("stock below zero", r.Business.StockNegative, "skus")
	row("unaccounted sales", r.Business.DuplicateOrders, "pieces without an order, or orders without a piece")
	flush(w)
	if r.OK {
		fmt.Fprintf(v.w, "\n%s\n", v.paint(green, "ok: nothing lost, nothing overlooked, nothing sold twice"))
	} else {
		fmt.Fprintf(v.w, "\n%s %s\n", v.paint(red, "NOT ok:"), orNone(r.faults()))
	}
}

func flush(w interface{ Flush() error }) { _ = w.Flush() }
