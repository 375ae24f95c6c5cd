package main

// degradeMutants are of what decides.
func degradeMutants() []mutant {
	const machine, route, pkg = "degrade/machine.go", "degrade/route.go", "degrade"
	return []mutant{
		{
			what: "a full wire must stay full for saturate_in", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `if !m.full.IsZero() && s.At.Sub(m.full) >= p.SaturateIn {`, new: `if !m.full.IsZero() {`,
		},
		{
			what: "a free wire must stay free for relax_in", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `if !m.free.IsZero() && s.At.Sub(m.free) >= p.RelaxIn && `, new: `if !m.free.IsZero() && `,
		},
		{
			what: "a relapse lasts for steady_in", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `next.stay = s.At.Add(p.SteadyIn)`, new: `next.stay = s.At`,
		},
		{
			what: "who would refuse is served while it waits out a relapse", file: machine, pkg: pkg, run: "TestWhoWouldRefuseIsServedWhileItWaitsOutARelapse",
			old: `m.eased = true`, new: `m.eased = false`,
		},
		{
			what: "but not before the wire was free for relax_in", file: machine, pkg: pkg, run: "TestWhoWouldRefuseIsServedWhileItWaitsOutARelapse",
			old: `if m.State == Saturated && !m.free.IsZero() && s.At.Sub(m.free) >= p.RelaxIn {`, new: `if m.State == Saturated && !m.free.IsZero() {`,
		},
		{
			what: "nor one that has another way", file: route, pkg: pkg, run: "TestWhoWouldRefuseIsServedWhileItWaitsOutARelapse",
			old: `if r.Tier == 0 && m.eased {`, new: `if m.eased {`,
		},
		{
			what: "a wire is full from 95 %", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `occupancy >= p.Saturated`, new: `occupancy > p.Saturated`,
		},
		{
			what: "a wire is free under 80 %, not under 95", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `occupancy < p.Relaxed`, new: `occupancy < p.Saturated`,
		},
		{
			what: "the last of the failures in a row counts", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `case s.Failures >= p.Failures:`, new: `case s.Failures > p.Failures:`,
		},
		{
			what: "slow comes before saturated", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `if m.State != Slow && s.Timeouts >= p.Timeouts {`, new: `if m.State == Recovering && s.Timeouts >= p.Timeouts {`,
		},
		{
			what: "a probe must be answered since it went down", file: machine, pkg: pkg, run: "TestMachineEdges|TestRandomWalk",
			old: `if answered(Down, s) > m.known && downReason`, new: `if answered(Down, s) > 0 && downReason`,
		},
		{
			what: "the ramp doubles", file: machine, pkg: pkg, run: "TestRampDoublesEverySecond",
			old: `share *= 2`, new: `share *= 4`,
		},
		{
			what: "a weak chain looks at its own part of the wire", file: machine, pkg: pkg, run: "TestWeakChainIsSaturatedByItsPartOfTheWire",
			old: `occupancy = max(occupancy, s.WeakOccupancy)`, new: `occupancy = max(occupancy, 0)`,
		},
		{
			what: "a strong chain is never below shared", file: route, pkg: pkg, run: "TestTruthTable|TestRandomWalk",
			old: "\treturn FallbackFail\n}", new: "\treturn FallbackLocal\n}",
		},
		{
			what: "optimistic on a strong chain needs its version guard", file: route, pkg: pkg, run: "TestTruthTable|TestRandomWalk",
			old: `if p.VersionGuard {`, new: `if true {`,
		},
		{
			what: "an order covers its share of the keys", file: "degrade/order.go", pkg: pkg, run: "TestOrderEndsByItselfAndCoversAShareOfKeys",
			old: `hash%100 < uint64(o.Percent)`, new: `hash%100 <= uint64(o.Percent)`,
		},
		{
			what: "an order ends by itself", file: "degrade/order.go", pkg: pkg, run: "TestOrderEndsByItselfAndCoversAShareOfKeys|TestRandomWalk",
			old: `at.Before(o.Until)`, new: `!o.Until.IsZero()`,
		},
		{
			what: "an order to local or bypass needs break_glass on a strong chain", file: "degrade/policy.go", pkg: pkg, run: "TestNeedsBreakGlass",
			old: "case tierlock.ModeLocal, tierlock.ModeBypass:\n\t\treturn true", new: "case tierlock.ModeLocal, tierlock.ModeBypass:\n\t\treturn false",
		},
		{
			what: "on_down is never coalesce", file: "degrade/policy.go", pkg: pkg, run: "TestValidateReportsEveryFaultAtOnce|TestCoalescingStaysWithTheStore",
			old: `p.OnDown.valid() && p.OnDown != FallbackCoalesce`, new: `p.OnDown.valid()`,
		},
	}
}
