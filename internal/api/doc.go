// Package api ANSWERS: it serves the five methods (try, lock, unlock, held, renew) of a
// gateway as HTTP and JSON, and the admin pages beside them. docs/http.md is its contract.
//
// It takes no lock by itself, renews nothing (the client renews) and keeps no state: a
// lock is found again by its key and request id, also by a process that never saw it.
package api
