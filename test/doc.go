// Package test holds what only tests need: suites that cross packages, and their libraries,
// which so stay out of the go.mod of those who embed Tierlock.
package test
