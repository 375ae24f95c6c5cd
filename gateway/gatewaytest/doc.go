// Package gatewaytest is for the tests of those who embed the gateway: force a chain onto
// a tier, make the store slow, full, silent or dead, look at what was granted and what was
// recorded, and assert what your own fallback did. Nothing leaves the process, nothing is
// written to disk, and all of it runs inside a testing/synctest bubble, where hours cost
// nothing.
package gatewaytest
