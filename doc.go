// Package tierlock holds the nouns every other package speaks: [Key], [RequestID],
// [Grant], [Tier], [Mode], [Verdict], [Backend] and the errors. It uses the standard
// library only, does no I/O and starts no goroutine.
//
// To take locks, use package gateway. To add a store, implement [Backend] and pass the
// suite in backend/backendtest.
package tierlock
