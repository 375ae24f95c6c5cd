package servers

import (
	"net"
	"syscall"
)

// dieWithParent has the kernel send s to the child when the thread that forked it ends.
func dieWithParent(attr *syscall.SysProcAttr, s syscall.Signal) { attr.Pdeathsig = s }

// claim takes a name for this process: an abstract socket, which is free again with its
// process and leaves no file.
func claim(name string) (release func(), ok bool) {
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		return nil, false
	}
	return func() { _ = l.Close() }, true
}
