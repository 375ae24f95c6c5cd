// Package faults BREAKS things on purpose: each test is one row of the catalogue of faults,
// injected into real servers and real processes, and looks at what a caller of the gateway
// gets. The run writes docs/fault-matrix.md:
//
//	TIERLOCK_SERVERS=real TIERLOCK_SOAK=1 TIERLOCK_FAULT_MATRIX=write go test ./faults
package faults
