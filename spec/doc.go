// Package spec SAYS WHAT EVERY SDK MUST DO: the wire format of the lock as text, scripts and
// test vectors in JSON. It has no code that anything else may use; its tests run the
// vectors against this repository's own code and real servers. Begin with README.md.
package spec
