// Package gateway ACTS: it takes, waits for, renews and gives back locks, on the tier
// that the chain's policy and the health of its store allow. It is the public entry of
// Tierlock and the only place where the other packages meet.
//
// It is not where a tier is chosen (package degrade), where health is felt (breaker),
// where a lock is kept (the stores, localfallback) or where holds are written down (audit).
//
// A request comes in through chain.go, waits in wait.go, and is one attempt at a time in
// acquire.go, which sends it to shared.go or standin.go. What keeps a lock once it is held
// is in watchdog.go, renewalbatch.go and lease.go, and how it is entered once more in reenter.go; what gives
// it back, in release.go and settle.go; how an operator's order reaches a request, in
// apply.go.
package gateway
