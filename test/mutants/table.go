package main

// mutant is one mechanism taken out.
type mutant struct {
	what string // the mechanism, in words
	file string // from the root of the repository
	old  string // stands exactly once in file
	new  string // what stands there instead
	pkg  string // folder of the tests, from the root
	run  string // the tests that must notice, a pattern for -run
}

// table is every mutant, in the order of the packages.
func table() []mutant {
	var all []mutant
	for _, part := range [][]mutant{degradeMutants(), breakerMutants(), localMutants(), switchMutants(), gatewayMutants(), auditMutants(), reconcileMutants()} {
		all = append(all, part...)
	}
	return all
}
