package main

// switchMutants are of what commands.
func switchMutants() []mutant {
	const judge, document, pkg = "switchcfg/judge.go", "switchcfg/document.go", "switchcfg"
	return []mutant{
		{
			what: "an older version is refused", file: judge, pkg: pkg, run: "TestFollowKeepsTheLastGoodDocument",
			old: `case d.Version < j.version:`, new: `case d.Version+1 < j.version:`,
		},
		{
			what: "the same version with other content is an alarm", file: judge, pkg: pkg, run: "TestFollowKeepsTheLastGoodDocument",
			old: `if d.Version == j.version && d.Hash() == j.hash && j.version > 0 {`, new: `if d.Version == j.version && j.version > 0 {`,
		},
		{
			what: "a canary leaves the others out", file: judge, pkg: pkg, run: "TestACanaryGetsTheDocumentFirstAndTheOthersKeepTheirs",
			old: `case !j.canaries && !d.Canary.Covers(j.instance):`, new: `case j.canaries && !d.Canary.Covers(j.instance):`,
		},
		{
			what: "the signature is looked at", file: judge, pkg: pkg, run: "TestFollowTakesSignedDocumentsOnly",
			old: `return d.Verify(j.keys...)`, new: `return nil`,
		},
		{
			what: "the last good document is held against the keys too", file: judge, pkg: pkg, run: "TestFollowTakesSignedDocumentsOnly",
			old: "if err := j.verify(d); err != nil {\n\t\treturn nil, err\n\t}", new: "if err := j.verify(d); err != nil && d.Version == 0 {\n\t\treturn nil, err\n\t}",
		},
		{
			what: "all of a document is signed", file: "switchcfg/sign.go", pkg: pkg, run: "TestEveryFieldIsSigned",
			old: `Policies: d.Policies}`, new: `Policies: nil}`,
		},
		{
			what: "a version of which every order has passed is none", file: judge, pkg: pkg, run: "TestFollowKeepsTheLastGoodDocument",
			old: `len(passed) == len(d.Chains) && len(d.Policies) == 0:`, new: `len(passed) > len(d.Chains) && len(d.Policies) == 0:`,
		},
		{
			what: "an order that has passed is not switched on by a restart", file: document, pkg: pkg, run: "TestLiveLeavesOutOrdersThatHavePassed|TestFollowLeavesOutOrdersThatHavePassed",
			old: `delete(live.Chains, name)`, new: `_ = live.Chains`,
		},
		{
			what: "an order needs its until", file: document, pkg: pkg, run: "TestCheckNamesFieldValueAndRule",
			old: `case d.Until.IsZero():`, new: `case d.Until.IsZero() && d.Mode == tierlock.ModeAuto:`,
		},
		{
			what: "until is capped", file: document, pkg: pkg, run: "TestCheckNamesFieldValueAndRule",
			old: `case d.Until.Sub(now) > MaxAhead:`, new: `case d.Until.Sub(now) > 2*MaxAhead:`,
		},
		{
			what: "there is no wildcard", file: document, pkg: pkg, run: "TestCheckNamesFieldValueAndRule",
			old: `c != '_' && c != '-'`, new: `c != '_' && c != '-' && c != '*'`,
		},
		{
			what: "a text cut off after its version switches nothing back", file: document, pkg: pkg, run: "TestCheckNamesFieldValueAndRule",
			old: `if d.Chains == nil {`, new: `if d.Chains == nil && d.Version == 0 {`,
		},
		{
			what: "a field that is not known is a fault", file: "switchcfg/reader.go", pkg: pkg, run: "TestDecodeNamesTheFault",
			old: `r.add(path, value, key.Line, "is not known here: want one of "+strings.Join(names, ", "))`, new: `_ = strings.Join(names, path)`,
		},
		{
			what: "the document in force is kept", file: "switchcfg/follow.go", pkg: pkg, run: "TestLastGoodServesARestartWithoutASource",
			old: "\t\tf.keep(now)\n", new: "\n",
		},
		{
			what: "a damaged last good copy is none", file: "switchcfg/lastgood.go", pkg: pkg, run: "TestDamagedLastGoodIsIgnoredWithAWarning",
			old: `if kept.SHA256 != sum(kept.Document) {`, new: `if kept.SHA256 == "" {`,
		},
		{
			what: "a lost push is on every instance within 6 s", file: "switchcfg/config.go", pkg: pkg, run: "TestALostPushIsOnEveryInstanceWithin6s",
			old: `defaultPoll  = 4 * time.Second`, new: `defaultPoll  = 6 * time.Second`,
		},
		{
			what: "a hint is fetched at once", file: "switchcfg/follow.go", pkg: pkg, run: "TestFollowFetchesAtAHint",
			old: "\tcase <-poll.C:\n\tcase <-f.hint:", new: "\tcase <-poll.C:",
		},
		{
			what: "a source that hangs does not stop the loop", file: "switchcfg/follow.go", pkg: pkg, run: "TestFollowOutlivesAHangingSource",
			old: `late := time.NewTimer(f.cfg.Fetch)`, new: `late := time.NewTimer(f.cfg.Fetch * 1000)`,
		},
		{
			what: "a file that is being written is waited for", file: "switchcfg/file.go", pkg: pkg, run: "TestFileFetchWaitsForWhoIsWriting",
			old: `age >= settle)`, new: `age >= 0)`,
		},
		{
			what: "the credentials are read anew", file: "switchcfg/http.go", pkg: pkg, run: "TestHTTPReadsCredentialsAnewAndTellsNoneOfThem",
			old: `if h.cfg.Authorize != nil {`, new: `if h.cfg.Authorize != nil && last.tag == "" {`,
		},
		{
			what: "whose document does not stand is told so", file: "internal/switchctl/place.go", pkg: "internal/switchctl", run: "TestOfTwoWhoPublishInOneInstantOneIsTold",
			old: `theirs.Version == ours.Version && theirs.Hash() != ours.Hash()`, new: `theirs.Version == ours.Version && theirs.Hash() == ""`,
		},
	}
}
