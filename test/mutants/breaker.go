package main

// breakerMutants are of what senses.
func breakerMutants() []mutant {
	const wire, fuse, health, probe, pkg = "breaker/wire.go", "breaker/fuse.go", "breaker/health.go", "breaker/probe.go", "breaker"
	return []mutant{
		{
			what: "a part of the wire is kept for strong chains", file: wire, pkg: pkg, run: "TestWeakCannotTakeTheReserve|TestWireWalk",
			old: `(!weak || w.weak < w.weakLimit)`, new: `(!weak || w.weak < w.limit)`,
		},
		{
			what: "what goes out under a share is read as under it", file: wire, pkg: pkg, run: "TestEachGateKeepsToItsShare|TestWhatGoesOutUnderAShareIsReadAsUnderIt",
			old: `if under && float64(n)`, new: `if false && float64(n)`,
		},
		{
			what: "releases of weak chains take nothing from strong ones", file: wire, pkg: pkg, run: "TestReleasesOfWeakChainsTakeNothingFromStrongOnes",
			old: `return w.out - max(0, w.weak-w.weakLimit)`, new: `return w.out`,
		},
		{
			what: "a flood of weak chains leaves strong ones their part of the ramp", file: wire, pkg: pkg, run: "TestWeakFloodLeavesStrongChainsTheirPartOfTheRamp",
			old: `if weak && w.weak >= part {`, new: `if weak && w.weak >= w.limit {`,
		},
		{
			what: "a slot goes to who waited longest", file: wire, pkg: pkg, run: "TestSlotGoesToWhoWaitedLongest|TestOlderWeakWaiterIsServedBeforeAStrongOne|TestWireWalk",
			old: `weak.order < strong.order`, new: `weak.order > strong.order`,
		},
		{
			what: "dials count on the wire", file: wire, pkg: pkg, run: "TestAbandonedOperationCountsUntilItIsDone",
			old: `float64(w.counted()+loose)`, new: `float64(w.counted()+min(loose, 0))`,
		},
		{
			what: "an abandoned operation counts until it is done", file: "breaker/pass.go", pkg: pkg, run: "TestAbandonedOperationCountsUntilItIsDone",
			old: `done != nil && !s.closed {`, new: `done != nil && s.closed {`,
		},
		{
			what: "a slot that comes with the deadline is given back", file: "breaker/sensor.go", pkg: pkg, run: "TestSlotAtTheVeryDeadlineIsTooLate|TestSlotHandedToOneWhoLeavesIsPassedOn|TestStorm",
			old: "case granted:\n\t\ts.wire.give(!ask.Strong)", new: "case granted:\n\t\ts.wire.give(ask.Strong)",
		},
		{
			what: "a trickle is two a second", file: "breaker/sensor.go", pkg: pkg, run: "TestTrickleIsTwoASecond",
			old: `s.trickle = now.Add(trickleEvery)`, new: `s.trickle = now.Add(trickleEvery / 2)`,
		},
		{
			what: "an answer ends a row of failures", file: fuse, pkg: pkg, run: "TestAnAnswerEndsARowOfFailures",
			old: "if f.row > 0 {\n\t\tf.row = 0", new: "if f.row > 0 {\n\t\tf.row++",
		},
		{
			what: "failures in a row open the breaker", file: fuse, pkg: pkg, run: "TestWhatOpensTheBreaker|TestSlowlyFailingStoreOpens",
			old: `return f.row >= f.limit`, new: `return f.row > f.limit`,
		},
		{
			what: "trials start at most twice a second", file: fuse, pkg: pkg, run: "TestCancelledTrials|TestOneTrialDecides",
			old: `f.trial = now.Add(trickleEvery)`, new: `f.trial = now`,
		},
		{
			what: "a trial that hangs is ended", file: "breaker/pass.go", pkg: pkg, run: "TestHungTrialDoesNotWedge",
			old: `s.fuse.settle(t, errHung)`, new: `_ = errHung`,
		},
		{
			what: "late results of a former era are ignored", file: health, pkg: pkg, run: "TestLateResultsOfAFormerEraAreIgnored|TestResultsFromBeforeATripAreIgnoredAfterIt",
			old: `stale := t.era != s.fuse.era`, new: `stale := t.era > s.fuse.era`,
		},
		{
			what: "held by another is an answer", file: health, pkg: pkg, run: "TestWhatOpensTheBreaker|TestProbeOfAKeyThatIsNoLockIsAnswered|TestChangedMayCallBack",
			old: "case tierlock.ReasonWrongType:\n\t\t\treturn foreign", new: "case tierlock.ReasonWrongType:\n\t\t\treturn failure",
		},
		{
			what: "a timeout is a failure once probes are not answered", file: health, pkg: pkg, run: "TestSwallowedProbes|TestWhatOpensTheBreaker|TestSlowlyFailingStoreOpens",
			old: `if k == timeout && s.health.unanswered(now) >= s.silence {`, new: `if k == timeout && s.health.unanswered(now) > time.Hour {`,
		},
		{
			what: "a timeout counts by its time on the wire", file: health, pkg: pkg, run: "TestTimeoutsCountByTheirTimeOnTheWire|TestTimeSpentWaitingForASlotIsNotTimeOnTheWire",
			old: `now.Sub(t.start) >= time.Duration(wireShare*float64(s.cfg.Attempt))`, new: `now.Sub(t.start) >= 0`,
		},
		{
			what: "timeouts of an outage are no slowness", file: health, pkg: pkg, run: "TestTimeoutsOfAnOutageAreNoSlowness",
			old: `case k == timeout && t.start.Before(s.health.back):`, new: `case k == timeout && t.start.Before(time.Time{}):`,
		},
		{
			what: "time in which this process did not run is no silence", file: health, pkg: pkg, run: "TestTimeOfOursIsNotTheStoresSilence|TestALookRightAfterAStallCountsNoSilenceOfIt",
			old: `h.probing && at.After(last) {`, new: `!h.probing && at.After(last) {`,
		},
		{
			what: "the first hard fault is probed at once", file: probe, pkg: pkg, run: "TestFirstHardFaultIsProbedFast|TestHardFaultHurriesThePlannedProbe",
			old: `h.burst = firstProbes`, new: `h.burst = 0`,
		},
		{
			what: "a fast probe takes under half an attempt", file: probe, pkg: pkg, run: "TestFastProbesAreUnderHalfAnAttempt",
			old: `took >= s.cfg.Attempt/2`, new: `took >= s.cfg.Attempt`,
		},
		{
			what: "no probes while calm", file: probe, pkg: pkg, run: "TestNoProbesWhileCalm|TestProbesWhileWorried",
			old: `if !now.Before(s.health.worried) {`, new: `if now.IsZero() {`,
		},
		{
			what: "no callback under the sensor's lock", file: "breaker/pass.go", pkg: pkg, run: "TestChangedMayCallBack",
			old: "s.freeLocked(t, err)\n\tis := s.fuse.state\n\ts.mu.Unlock()\n\n\ts.moved(was, is)\n\tif fault {\n\t\ts.cfg.Changed()\n\t}",
			new: "s.freeLocked(t, err)\n\tis := s.fuse.state\n\tif fault {\n\t\ts.cfg.Changed()\n\t}\n\ts.mu.Unlock()\n\n\ts.moved(was, is)",
		},
	}
}
