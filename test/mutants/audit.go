package main

// auditMutants are of what keeps events on the disk and brings them to the stream. A kill -9
// alone does not miss an fsync, since the page cache outlives the process: the power loss does,
// and strace. See docs/decisions/0045-rolled-back.md.
func auditMutants() []mutant {
	const spool, log = "audit/spool", "audit"
	return []mutant{
		{
			what: "a batch is synced before it is acknowledged", file: "audit/spool/segment.go", pkg: spool, run: "TestSoakNothingAcknowledgedIsLostInAPowerLoss",
			old: `return f.Sync()`, new: `return nil`,
		},
		{
			what: "a batch counts from its commit frame on", file: "audit/spool/frame.go", pkg: spool, run: "TestTornTailIsCutAtEveryByteOfTheLastBatch|TestTornTailIsCutForEveryFlippedBitOfTheLastBatch",
			old: "\t\tat += f.size()\n\t}\n\treturn seq, end", new: "\t\tat += f.size()\n\t\tseq, end = f.seq, at\n\t}\n\treturn seq, end",
		},
		{
			what: "a batch that a kill has torn counts for nothing", file: "audit/spool/frame.go", pkg: spool, run: "TestABatchThatAKillTearsIsNotThereAtAll",
			old: `f.kind == kindCommit && f.seq <= most && f.whole(data, at)`, new: `f.seq <= most`,
		},
		{
			what: "a killed writer's batches end with commit frames", file: "audit/spool/append.go", pkg: spool, run: "TestSoakNothingAcknowledgedIsLostWhenTheProcessIsKilled",
			old: `b.buf = appendCommit(b.buf, b.count, seq-1)`, new: `_ = appendCommit(b.buf, b.count, seq-1)`,
		},
		{
			what: "a torn tail is cut", file: "audit/spool/recover.go", pkg: spool, run: "TestTornTailIsCutAtEveryByteOfTheLastBatch|TestTornTailOfZeroesIsCut",
			old: `f.Truncate(g.size - int64(len(torn)))`, new: `f.Truncate(g.size)`,
		},
		{
			what: "the reserve is for closing records", file: "audit/log.go", pkg: log, run: "TestFullDiskByPolicy",
			old: "return spool.Ordinary\n\t}\n\treturn spool.Closing", new: "return spool.Closing\n\t}\n\treturn spool.Ordinary",
		},
		{
			what: "a chain sees another prev than it saw last", file: "audit/chain.go", pkg: log, run: "TestChainFindsOneMissingEventByPrevAndBySeq",
			old: `if ev.Prev != last.seq {`, new: `if ev.Prev > ev.Seq {`,
		},
		{
			what: "a grant that was given up on is closed by the log", file: "audit/log.go", pkg: log, run: "TestRecordGivenUpIsClosedByTheLogItself",
			old: `case ev.Type == TypeAcquire && errors.Is(err, spool.ErrInDoubt):`, new: `case ev.Type == TypeGap && errors.Is(err, spool.ErrInDoubt):`,
		},
		{
			what: "a dead letter tells how often it was sent", file: "audit/forward.go", pkg: log, run: "TestPoisonGoesToTheDeadLettersWithItsReasonAndTheChainGoesOn",
			old: `f.sort(ctx, todo, errs, sends)`, new: `f.sort(ctx, todo, errs, sends-sends)`,
		},
	}
}
