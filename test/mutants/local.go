package main

// localMutants are of what stands in.
func localMutants() []mutant {
	const table, record, pkg = "localfallback/table.go", "localfallback/record.go", "localfallback"
	return []mutant{
		{
			what: "at most permits holders", file: record, pkg: pkg, run: "TestTableKeepsTheContract|TestFewerPermitsPutNobodyOut|TestCountersStayExactUnderLoad",
			old: `return len(r.holders) >= permits ||`, new: `return len(r.holders) > permits ||`,
		},
		{
			what: "a holder that is alone stays alone", file: record, pkg: pkg, run: "TestHolderThatIsAloneStaysAlone",
			old: `alone: permits == 1}`, new: `alone: permits < 1}`,
		},
		{
			what: "fewer permits put nobody out", file: table, pkg: pkg, run: "TestFewerPermitsPutNobodyOut|TestFullTableRefusesNewKeysAndKeepsItsHolders",
			old: "\tr.prune(a.now)\n\tif i := r.find(a.id)", new: "\tr.prune(a.now)\n\tr.holders = r.holders[:min(len(r.holders), a.permits)]\n\tif i := r.find(a.id)",
		},
		{
			what: "a full table refuses", file: "localfallback/count.go", pkg: pkg, run: "TestFullTableRefusesNewKeysAndKeepsItsHolders",
			old: `if t.live.Add(1) > t.keys {`, new: `if t.live.Add(1) > t.keys+1 {`,
		},
		{
			what: "a live holder is never evicted", file: "localfallback/count.go", pkg: pkg, run: "TestLongHolderIsKeptBesideAShortOne",
			old: `r.expires = last + moment(linger)`, new: `r.expires = r.first().until + moment(linger)`,
		},
		{
			what: "a holder that outlasts its record moves the record's end", file: "localfallback/visit.go", pkg: pkg, run: "TestLongHolderIsKeptInAShortHoldersRecord",
			old: "if a.until > r.expires {\n\t\treturn false\n\t}", new: "if a.until > r.expires+moment(1<<60) {\n\t\treturn false\n\t}",
		},
		{
			what: "ends are on the monotonic clock", file: "localfallback/clock.go", pkg: pkg, run: "TestAStepOfTheWallClockMovesNoEnd",
			old: `return moment(time.Since(c.start))`, new: `return moment(time.Now().Round(0).Sub(c.start.Round(0)))`,
		},
		{
			what: "the end is hard, a renewal does not move it", file: table, pkg: pkg, run: "TestHardEndIsNotMovedByRenewals",
			old: "if what == enter {\n", new: "if what == look {\n\t\t\t\tr.holders[i].until = now + moment(hold.TTL)\n\t\t\t}\n\t\t\tif what == enter {\n",
		},
		{
			what: "a release wakes who waits", file: record, pkg: pkg, run: "TestWaitersAreWokenByARelease",
			old: "r.holders = r.holders[:end]\n\tr.rouse()", new: "r.holders = r.holders[:end]",
		},
		{
			what: "a wait ends with the first holder", file: "localfallback/wait.go", pkg: pkg, run: "TestWaitEndsWithTheFirstHolder",
			old: `t.clock.time(r.first().until)`, new: `t.clock.time(r.last())`,
		},
		{
			what: "a second entry keeps the hold", file: record, pkg: pkg, run: "TestTableKeepsTheContract",
			old: "h.entries = []uint64{0, entry}", new: "h.entries = []uint64{0}",
		},
	}
}
