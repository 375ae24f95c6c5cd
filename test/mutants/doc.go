// Command mutants takes the mechanisms of the degradation loop, of audit and of reconcile out, one at a time, and says
// which of them a test misses.
//
//	cd test && go run ./mutants             # all of them, some 55 minutes
//	cd test && go run ./mutants -only ramp  # those whose name matches
//
// A mutant is one exact text of one file and what stands there instead. The tree is not
// touched: the compiler reads the changed file in the place of the real one (go test -overlay).
// A mutant is caught when a test that is named for it fails and has said why in a line of a
// _test.go file. One that does not build, hangs, panics, whose tests were left out, or fail only by a
// server that does not start or a race, is as bad as one that survives: it says nothing, and
// needs another text. The same tests must pass on the tree as it is.
package main
