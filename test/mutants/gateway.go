package main

// gatewayMutants are of what acts: the loop where the others meet.
func gatewayMutants() []mutant {
	const shared, standin, apply, acquire, pkg = "gateway/shared.go", "gateway/standin.go", "gateway/apply.go", "gateway/acquire.go", "gateway"
	return []mutant{
		{
			what: "a shared grant that comes after the step down is given back", file: shared, pkg: pkg, run: "TestAGrantAfterTheStepDownIsNotUsed",
			old: `r.moved(route, now); moved {`, new: `r.moved(route, now); moved && now.IsZero() {`,
		},
		{
			what: "a shared hold of the process blocks its key locally", file: "gateway/registry.go", pkg: pkg, run: "TestOwnSharedHolderBlocksItsKeyLocally",
			old: `return until, !until.IsZero()`, new: `return until, false`,
		},
		{
			what: "a local request looks again after it has entered the table", file: standin, pkg: pkg, run: "TestALocalRequestSeesTheSharedHolderThatCameFirst",
			old: "c.gw.locks.add(l.lease)\n\tif local {", new: "c.gw.locks.add(l.lease)\n\tif local && false {",
		},
		{
			what: "a shared request looks into the table after its grant", file: shared, pkg: pkg, run: "TestALateSharedGrantSeesTheLocalHolder",
			old: "err = c.heldLocally(r, now)\n\tif err == nil {", new: "if err == nil {",
		},
		{
			what: "a local holder blocks its key after the outage", file: shared, pkg: pkg, run: "TestOwnLocalHolderBlocksItsKeyAfterRecovery",
			old: `if c.table.Live() == 0 {`, new: `if c.table.Live() >= 0 {`,
		},
		{
			what: "a bypass grant after its order is not used", file: standin, pkg: pkg, run: "TestABypassGrantAfterItsOrderIsNotUsed",
			old: `if c.policy.Audit.Waits(l.tier) { // the disk`, new: `if !c.policy.Audit.Waits(l.tier) { // the disk`,
		},
		{
			what: "a bypass grant is on the disk before the caller has it", file: "gateway/record.go", pkg: pkg, run: "TestABypassGrantIsDurableBeforeTheCallerHasIt",
			old: `if !c.policy.Audit.Waits(l.tier) {`, new: `if c.policy.Audit.Records(l.tier) {`,
		},
		{
			what: "the local ttl is a hard end of its own", file: acquire, pkg: pkg, run: "TestALocalLockEndsHardAndABypassOneIsRenewed|TestOwnLocalHolderBlocksItsKeyAfterRecovery",
			old: `min(r.ttl, r.policy.Local.TTL)`, new: `max(r.ttl, r.policy.Local.TTL)`,
		},
		{
			what: "strictly newer wins", file: apply, pkg: pkg, run: "TestStrictlyNewerWins",
			old: `case d.Version < g.applied.version:`, new: `case d.Version+1 < g.applied.version:`,
		},
		{
			what: "the same version with other content is refused", file: apply, pkg: pkg, run: "TestStrictlyNewerWins",
			old: `case d.Version == g.applied.version && hash == g.applied.hash:`, new: `case d.Version == g.applied.version:`,
		},
		{
			what: "a strong chain is put below shared by break_glass alone", file: apply, pkg: pkg, run: "TestAStrongChainNeverGoesLocal|TestEveryModeIsObeyed|TestEveryFaultOfADocumentIsToldAtOnce",
			old: `!o.BreakGlass && c.policy.Ladder.NeedsBreakGlass(o.Mode)`, new: `o.BreakGlass && c.policy.Ladder.NeedsBreakGlass(o.Mode)`,
		},
		{
			what: "a document is put in force whole or not at all", file: apply, pkg: pkg, run: "TestAPolicyThatIsWrongRefusesTheWholeDocument",
			old: `if err := errors.Join(g.breakGlass(d), err); err != nil {`, new: `if err := errors.Join(g.breakGlass(d)); err != nil {`,
		},
		{
			what: "a policy value is held against the whole policy", file: "gateway/amend.go", pkg: pkg, run: "TestAPolicyThatIsWrongRefusesTheWholeDocument|TestAmendChangesWhatItSaysAndNothingElse|TestEveryFaultOfADocumentIsToldAtOnce",
			old: `return p, p.Validate()`, new: `return p, nil`,
		},
		{
			what: "what cannot change while it runs is refused", file: "gateway/amend.go", pkg: pkg, run: "TestAmendChangesWhatItSaysAndNothingElse|TestAPolicyThatIsWrongRefusesTheWholeDocument",
			old: `if !slices.Contains(amendable, name) {`, new: `if name == "" && !slices.Contains(amendable, name) {`,
		},
		{
			what: "a dry run changes nothing", file: apply, pkg: pkg, run: "TestADryRunCountsWhatWouldHaveHappenedAndChangesNothing",
			old: `next, dry = nil, &rehearsal{Order: next.Order}`, new: `dry = &rehearsal{Order: next.Order}`,
		},
		{
			what: "an order ends with its source gone", file: "degrade/order.go", pkg: pkg, run: "TestAnOrderEndsByItself|TestAnOrderOutlivesARestartWithTheCentreGoneAndEndsByItself",
			old: `at.Before(o.Until)`, new: `!o.Until.IsZero()`,
		},
		{
			what: "an order's end is on the monotonic clock", file: "gateway/order.go", pkg: pkg, run: "TestAnOrderEndsByTheMonotonicClock",
			old: `d.Until = now.Add(span)`, new: `d.Until = now.Add(span).Round(0)`,
		},
		{
			what: "an order is warned of before it ends", file: "gateway/order.go", pkg: pkg, run: "TestAnOrderIsWarnedOfBeforeItEndsOnlyWhileItsCauseLasts",
			old: `case !healthy && !now.Before(o.warnAt)`, new: `case !now.Before(o.warnAt)`,
		},
		{
			what: "a full wire is asked once for each key", file: acquire, pkg: pkg, run: "TestAFullWireIsAskedOnceForAll|TestAFullWireServesAHotKeyOneAtATime",
			old: `if coalesces(route) && r.place == nil {`, new: `if coalesces(route) && r.place == nil && r.once {`,
		},
		{
			what: "an answer is only for those who came before it", file: "gateway/coalesce.go", pkg: pkg, run: "TestAnAnswerIsOnlyForThoseWhoCameBeforeIt|TestAnOldAnswerIsNone",
			old: `!see.held.IsZero() && !see.held.Before(r.since)`, new: `!see.held.IsZero()`,
		},
		{
			what: "what is in doubt is given back", file: shared, pkg: pkg, run: "TestALostReplyIsSettled|TestTimeoutsAreSettledOnceTheStoreAnswers",
			old: `if f.InDoubt {`, new: `if f.InDoubt && f.Err == nil && r.named {`,
		},
		{
			what: "a release sent before the not-after says nothing", file: "gateway/settle.go", pkg: pkg, run: "TestAReleaseSaysNothingOfWhatCameAfterIt|TestTheLaterDoubtCounts",
			old: `case err == nil && !sent.Before(e.notAfter), `, new: `case err == nil, `,
		},
		{
			what: "a release goes where the grant came from", file: "gateway/release.go", pkg: pkg, run: "TestUnlockFollowsTheGrant",
			old: `ans, cause := l.by.Release(detach(`, new: `ans, cause := l.chain.local.Release(detach(`,
		},
		{
			what: "a release goes where the grant came from, on a real Redis", file: "gateway/release.go", pkg: "test/composition", run: "TestStatesAsTheDocsSay",
			old: `ans, cause := l.by.Release(detach(`, new: `ans, cause := l.chain.store.Release(detach(`,
		},
		{
			what: "a release without an answer goes on behind the caller", file: "gateway/release.go", pkg: "test/composition", run: "TestStatesAsTheDocsSay",
			old: "l.chain.gw.ledger.add(l.chain.putOff(l))\n\t\treturn 0, true, l.failed(\"release\", faultReason(cause), cause)", new: "return 0, true, l.failed(\"release\", faultReason(cause), cause)",
		},
		{
			what: "a question goes where the grant came from, on a real Redis", file: "gateway/lock.go", pkg: "test/composition", run: "TestStatesAsTheDocsSay",
			old: `ans, err = l.by.Lookup(`, new: `ans, err = l.chain.store.Lookup(`,
		},
		{
			what: "what a bypass let through is found", file: "gateway/record.go", pkg: "test/reconcile", run: "TestOneOfThreeProcessesIsCutOff",
			old: `if !c.policy.Audit.Records(l.tier) {`, new: `if !c.policy.Audit.Records(l.tier) || l.tier == tierlock.Bypass {`,
		},
		{
			what: "what was in doubt when it was cut off does not stay", file: shared, pkg: "test/reconcile", run: "TestOneOfThreeProcessesIsCutOff",
			old: `if f.InDoubt {`, new: `if f.InDoubt && f.Err == nil && r.named {`,
		},
		{
			what: "a store that is down is not asked to release", file: "gateway/release.go", pkg: pkg, run: "TestUnlockNeverWaitsForAStoreThatIsDown",
			old: `if l.tier == tierlock.Shared && l.ladder.down() && `, new: `if l.tier == tierlock.Shared && !l.ladder.down() && `,
		},
		{
			what: "a store that is down is left alone by the ledger", file: "gateway/settle.go", pkg: pkg, run: "TestReleasesAreNotSentInAHerd|TestTimeoutsAreSettledOnceTheStoreAnswers|TestUnlockNeverWaitsForAStoreThatIsDown",
			old: `if e.ladder.down() {`, new: `if e.hold.TTL < 0 {`,
		},
		{
			what: "the ladder steps before the request asks it again", file: "gateway/store.go", pkg: pkg, run: "TestTheCallThatFindsTheStoreGoneIsServedLocally",
			old: "for _, l := range ladders {\n\t\tl.step()\n\t}", new: "for range ladders {\n\t}",
		},
		{
			what: "sensors keep probing while a machine is not normal", file: "gateway/ladder.go", pkg: pkg, run: "TestASlowStoreThatNobodyAsksIsFoundWell",
			old: `l.target.sensor.Worry()`, new: `_ = l.target.sensor`,
		},
		{
			what: "an order to the store passes the breaker", file: "gateway/admit.go", pkg: pkg, run: "TestAnOrderToTheStorePassesTheBreaker",
			old: `deadline, r.order != nil || r.policy.Ladder.Observe`, new: `deadline, r.policy.Ladder.Observe`,
		},
		{
			what: "a hook is called with no lock held", file: "gateway/telling.go", pkg: pkg, run: "TestAHookIsCalledWithNoLockHeld",
			old: "t.news = t.news[1:]\n\tt.mu.Unlock()\n\tdefer func() {\n\t\tt.mu.Lock()\n\t\tt.telling", new: "t.news = t.news[1:]\n\tdefer func() {\n\t\tt.telling",
		},
		{
			what: "changes are told in their order", file: "gateway/telling.go", pkg: pkg, run: "TestOrdersAreToldInOrder",
			old: `if t.telling || len(t.news) == 0 {`, new: `if len(t.news) == 0 {`,
		},
	}
}
