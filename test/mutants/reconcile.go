package main

// reconcileMutants are of what finds, and of what repairs.
func reconcileMutants() []mutant {
	const rule, feed, repair, pkg, kafka = "reconcile/rule.go", "reconcile/feed.go", "reconcile/repair.go", "reconcile", "reconcile/kafkasource"
	return []mutant{
		{
			what: "what must be certain is not called possible", file: rule, pkg: kafka, run: "TestOracleOverKafka",
			old: `known := a.Error > 0 && b.Error > 0 &&`, new: `known := a.Error > 0 && b.Error > 0 && a.Error < 4*time.Millisecond &&`,
		},
		{
			what: "certain leaves out what the clocks may be off by", file: rule, pkg: pkg, run: "TestCertainIsNeverWrongAndNothingIsMissed|TestRelate",
			old: `b.GrantedAt, b.EndedAt, -ea-eb) {`, new: `b.GrantedAt, b.EndedAt, 0) {`,
		},
		{
			what: "possible stretches by what the clocks may be off by", file: rule, pkg: pkg, run: "TestCertainIsNeverWrongAndNothingIsMissed|TestRelate",
			old: `b.GrantedAt, b.Latest, ea+eb) || handedOver(a, b) {`, new: `b.GrantedAt, b.Latest, 0) || handedOver(a, b) {`,
		},
		{
			what: "an unknown clock makes nothing certain", file: rule, pkg: pkg, run: "TestRelate|TestOracle",
			old: `known := a.Error > 0 && b.Error > 0 &&`, new: `known := a.Error >= 0 && b.Error >= 0 &&`,
		},
		{
			what: "a hold without an end is never certain", file: rule, pkg: pkg, run: "TestRelate",
			old: `if known && a.Ended() && b.Ended() &&`, new: `if known &&`,
		},
		{
			what: "rolled-back work puts nothing at risk", file: "reconcile/overlap.go", pkg: pkg, run: "TestSweepAgreesWithEveryPair|TestRolledBackNeitherWinsNorLoses",
			old: `if !first.undone() && !second.undone() {`, new: `if !first.undone() || !second.undone() {`,
		},
		{
			what: "rolled-back work is not who came first", file: repair, pkg: pkg, run: "TestRolledBackNeitherWinsNorLoses",
			old: `!hooked || f.Members[i].undone() {`, new: `!hooked {`,
		},
		{
			what: "the watermark waits for who has not told everything", file: feed, pkg: pkg, run: "TestSilentProducerIsNamedAndReleased|TestHalfABacklogTakesNoCommitBack",
			old: `if !ok || f.mark.Before(low) {`, new: `if !ok || f.mark.After(low) {`,
		},
		{
			what: "a producer that is dead for good stops nothing", file: feed, pkg: pkg, run: "TestSilentProducerIsNamedAndReleased",
			old: `f.silent, fs.moved = true, true`, new: `f.silent, fs.moved = false, true`,
		},
		{
			what: "a seq that has not come is a gap", file: feed, pkg: pkg, run: "TestMissingEventsAreGaps",
			old: `if at.to.After(horizon) {`, new: `if at.to.After(horizon) || true {`,
		},
		{
			what: "a finding says what it waits for", file: "reconcile/provisional.go", pkg: pkg, run: "TestMissingSeqMakesItsTimeProvisional|TestEndOfAStreamIsProvisional",
			old: `if !f.Provisional {`, new: `if f.Provisional = false; !f.Provisional {`,
		},
		{
			what: "a late event has its partition read again", file: "reconcile/window.go", pkg: pkg, run: "TestLateEndWithdraws|TestBacklogReopensWindows",
			old: `return offset >= w.resume && w.rule.start(&h.Interval).Before(from)`, new: `return offset < 0 && w.rule.start(&h.Interval).Before(from)`,
		},
		{
			what: "a repair's key is not of its finding", file: repair, pkg: kafka, run: "TestEarlierAndMergingMembersRepairNothingTwice",
			old: `ID:     repairKey(m, action),`, new: `ID:     repairKey(m, action+f.ID),`,
		},
		{
			what: "repairs wait for a quiet fleet", file: "reconcile/judge.go", pkg: pkg, run: "TestRepairWaitsForQuiet",
			old: `return j.fleet.quiet(chain, j.cfg.Quiet, j.cfg.Idle, known)`, new: `return j.fleet.quiet(chain, 0, 0, known)`,
		},
		{
			what: "the cap on amounts", file: "reconcile/caps.go", pkg: pkg, run: "TestAmountsPerMinuteAreCapped",
			old: `left -= s.amount`, new: `left -= s.amount - s.amount`,
		},
		{
			what: "two approvers are two people", file: "reconcile/approvals_sql.go", pkg: pkg, run: "TestApprovalsTable|TestARepairWaitsForTwoPeople",
			old: `case slices.Contains(yes, by) || len(yes) >= a.Approvers:`, new: `case slices.Contains(yes, by+by) || len(yes) >= a.Approvers:`,
		},
		{
			what: "who asks does not approve", file: "reconcile/approvals_sql.go", pkg: pkg, run: "TestApprovalsTable|TestARepairWaitsForTwoPeople",
			old: `if a.AskedBy == by {`, new: `if a.AskedBy == "" {`,
		},
		{
			what: "a member commits what is its own alone", file: "reconcile/kafkasource/source.go", pkg: kafka, run: "TestTwoMembersShare|TestMembersComeAndGo",
			old: `if gen == nil || !owned {`, new: `if gen == nil || !owned && false {`,
		},
		{
			what: "a call of a store that does not answer is counted", file: "reconcile/patience.go", pkg: pkg, run: "TestApprovalsThatHangKeepNoFindingBack",
			old: `p.timeouts++`, new: `p.timeouts += 0`,
		},
		{
			what: "a trouble is told", file: "reconcile/patience.go", pkg: pkg, run: "TestTroublesLastAsLongAsTheyDo",
			old: "\n\tp.troubles[step] = t", new: "\n\t_ = t",
		},
	}
}
