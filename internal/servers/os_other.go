//go:build unix && !linux

package servers

import "syscall"

// dieWithParent has no counterpart here: a killed test leaves its servers running.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// claim has no counterpart here either: two test processes that pick one port at the same
// moment collide, and one of them fails.
func claim(string) (release func(), ok bool) { return func() {}, true }
