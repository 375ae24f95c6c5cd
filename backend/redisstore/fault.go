package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// replies is what each error reply means. The server answered, so the operation has not
// happened and is in no doubt. docs/redis-errors.md tells what a caller then gets; a test
// holds the two together.
var replies = []struct {
	prefix string
	reason tierlock.Reason
}{
	// It cannot serve anybody now.
	{"LOADING ", tierlock.ReasonDown},
	{"MASTERDOWN ", tierlock.ReasonDown},
	{"CLUSTERDOWN ", tierlock.ReasonDown},
	// It will not.
	{"READONLY ", tierlock.ReasonDenied},   // a replica, or a master demoted
	{"NOREPLICAS ", tierlock.ReasonDenied}, // min-replicas-to-write
	{"MISCONF ", tierlock.ReasonDenied},    // its disk refused a snapshot
	{"OOM ", tierlock.ReasonDenied},        // maxmemory, acquires only
	{"NOPERM ", tierlock.ReasonDenied},     // ACL
	{"NOAUTH ", tierlock.ReasonDenied},
	{"WRONGPASS ", tierlock.ReasonDenied},
	{"BUSY ", tierlock.ReasonDenied},     // some other script runs too long
	{"NOSCRIPT ", tierlock.ReasonDenied}, // twice: it forgot the body that came with the question
	{"MOVED ", tierlock.ReasonDenied},    // a Cluster node, configured as a single server
	{"ASK ", tierlock.ReasonDenied},
	{"TRYAGAIN ", tierlock.ReasonDenied},
	{"CROSSSLOT ", tierlock.ReasonDenied},
	{"ERR max number of clients reached", tierlock.ReasonSaturated},
	// It is well; the key is something else.
	{"WRONGTYPE ", tierlock.ReasonWrongType},
}

// answered tells whether err is a reply of the server and not the lack of one.
func answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// fault says what err, from go-redis, means. It is total: what it does not know is a
// broken connection that may have carried the request.
func fault(err error) *tierlock.Fault {
	var unmade *dialError
	var unknown *credentialsError
	switch {
	case errors.As(err, &unmade):
		return unconnected(unmade)
	case errors.As(err, &unknown):
		return &tierlock.Fault{Reason: tierlock.ReasonDenied, Err: err}
	case errors.Is(err, errReplica):
		return &tierlock.Fault{Reason: tierlock.ReasonDown, Err: err}
	case answered(err):
		return refused(err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return &tierlock.Fault{Reason: tierlock.ReasonSaturated, Err: err}
	case errors.Is(err, redis.ErrClosed):
		return &tierlock.Fault{Reason: tierlock.ReasonBroken, Err: err}
	case errors.Is(err, context.Canceled):
		// Only the waits before sending heed a cancel.
		return &tierlock.Fault{Reason: tierlock.ReasonCanceled, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		// So do they alone return this one; a socket's own deadline is another error.
		return &tierlock.Fault{Reason: tierlock.ReasonAttempt, Err: err}
	case timedOut(err):
		return &tierlock.Fault{Reason: tierlock.ReasonAttempt, InDoubt: true, Err: err}
	}
	if alerted(err) {
		return &tierlock.Fault{Reason: tierlock.ReasonDenied, InDoubt: true, Err: err}
	}
	return &tierlock.Fault{Reason: tierlock.ReasonBroken, InDoubt: true, Err: err}
}

// alerted tells whether err is what the server says by TLS, most often of our certificate,
// which it judges after the handshake.
func alerted(err error) bool {
	alert := (*net.OpError)(nil)
	return errors.As(err, &alert) && alert.Op == "remote error"
}

// unconnected is the fault of a question whose connection could not be made, or was found
// closed before anything was sent.
func unconnected(err *dialError) *tierlock.Fault {
	switch {
	case errors.Is(err.cause, context.Canceled), errors.Is(err.cause, net.ErrClosed):
		return &tierlock.Fault{Reason: tierlock.ReasonBroken, Err: err.cause} // the Store was closed
	case timedOut(err.cause):
		return &tierlock.Fault{Reason: tierlock.ReasonAttempt, Err: err.cause}
	case errors.Is(err.cause, errNoRoom):
		return &tierlock.Fault{Reason: tierlock.ReasonSaturated, Err: err.cause}
	case errors.Is(err.cause, errProtected), alerted(err.cause):
		return &tierlock.Fault{Reason: tierlock.ReasonDenied, Err: err.cause}
	case errors.Is(err.cause, syscall.EMFILE), errors.Is(err.cause, syscall.ENFILE):
		return &tierlock.Fault{Reason: tierlock.ReasonSaturated, Err: err.cause} // ours: no file descriptor left
	}
	return &tierlock.Fault{Reason: tierlock.ReasonDown, Err: err.cause}
}

// refused is the fault of a question that the server answered with an error.
func refused(err error) *tierlock.Fault {
	text := err.Error()
	for _, known := range replies {
		if strings.HasPrefix(text, known.prefix) {
			return &tierlock.Fault{Reason: known.reason, Err: err}
		}
	}
	return &tierlock.Fault{Reason: tierlock.ReasonDenied, Err: err}
}

func timedOut(err error) bool {
	var slow net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}
