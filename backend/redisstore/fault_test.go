package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierlock/tierlock"
)

// serverError is an error reply, as go-redis hands it on.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

const sure, doubt = false, true

// faultCases are errors of go-redis, and what each means. Those that are no reply of the
// server stand in docs/redis-errors.md by their name.
var faultCases = []struct {
	name    string
	err     error
	reason  tierlock.Reason
	inDoubt bool
}{
	{"loading", serverError("LOADING Redis is loading the dataset in memory"), tierlock.ReasonDown, sure},
	{"master down", serverError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), tierlock.ReasonDown, sure},
	{"cluster down", serverError("CLUSTERDOWN The cluster is down"), tierlock.ReasonDown, sure},
	{"read only", serverError("READONLY You can't write against a read only replica."), tierlock.ReasonDenied, sure},
	{"no replicas", serverError("NOREPLICAS Not enough good replicas to write."), tierlock.ReasonDenied, sure},
	{"disk", serverError("MISCONF Errors writing to the AOF file: No space left on device"), tierlock.ReasonDenied, sure},
	{"memory", serverError("OOM command not allowed when used memory > 'maxmemory'."), tierlock.ReasonDenied, sure},
	{"acl", serverError("NOPERM this user has no permissions to run the 'evalsha' command"), tierlock.ReasonDenied, sure},
	{"no auth", serverError("NOAUTH Authentication required."), tierlock.ReasonDenied, sure},
	{"wrong password", serverError("WRONGPASS invalid username-password pair or user is disabled."), tierlock.ReasonDenied, sure},
	{"wrapped wrong password", fmt.Errorf("failed to authenticate: %w", serverError("WRONGPASS invalid")), tierlock.ReasonDenied, sure},
	{"busy script", serverError("BUSY Redis is busy running a script."), tierlock.ReasonDenied, sure},
	{"moved", serverError("MOVED 3999 127.0.0.1:6381"), tierlock.ReasonDenied, sure},
	{"ask", serverError("ASK 3999 127.0.0.1:6381"), tierlock.ReasonDenied, sure},
	{"try again", serverError("TRYAGAIN Multiple keys request during rehashing of slot"), tierlock.ReasonDenied, sure},
	{"cross slot", serverError("CROSSSLOT Keys in request don't hash to the same slot"), tierlock.ReasonDenied, sure},
	{"max clients", serverError("ERR max number of clients reached"), tierlock.ReasonSaturated, sure},
	{"wrong type", serverError("WRONGTYPE Operation against a key holding the wrong kind of value"), tierlock.ReasonWrongType, sure},
	{"unknown script twice", serverError("NOSCRIPT No matching script."), tierlock.ReasonDenied, sure},
	{"any other reply", serverError("ERR unknown command 'EVALSHA'"), tierlock.ReasonDenied, sure},

	{"pool wait", redis.ErrPoolTimeout, tierlock.ReasonSaturated, sure},
	{"pool full", redis.ErrPoolExhausted, tierlock.ReasonSaturated, sure},
	{"store closed", redis.ErrClosed, tierlock.ReasonBroken, sure},
	{"cancelled before sending", context.Canceled, tierlock.ReasonCanceled, sure},
	{"deadline before sending", context.DeadlineExceeded, tierlock.ReasonAttempt, sure},

	{"reply too late", &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, tierlock.ReasonAttempt, doubt},
	{"write too late", &net.OpError{Op: "write", Net: "tcp", Err: os.ErrDeadlineExceeded}, tierlock.ReasonAttempt, doubt},
	{"end of stream", io.EOF, tierlock.ReasonBroken, doubt},
	{"half a reply", io.ErrUnexpectedEOF, tierlock.ReasonBroken, doubt},
	{"reset", opError("read", syscall.ECONNRESET), tierlock.ReasonBroken, doubt},
	{"broken pipe", opError("write", syscall.EPIPE), tierlock.ReasonBroken, doubt},
	{"alert by TLS", &net.OpError{Op: "remote error", Err: errors.New("tls: expired certificate")}, tierlock.ReasonDenied, doubt},
	{"anything else", errors.New("redis: can't parse reply"), tierlock.ReasonBroken, doubt},

	{"refused", &dialError{opError("connect", syscall.ECONNREFUSED)}, tierlock.ReasonDown, sure},
	{"no route", &dialError{opError("connect", syscall.EHOSTUNREACH)}, tierlock.ReasonDown, sure},
	{"no such host", &dialError{&net.DNSError{Err: "no such host", IsNotFound: true}}, tierlock.ReasonDown, sure},
	{"a replica where sentinels had seen the master", errReplica, tierlock.ReasonDown, sure},
	{"no answer to the dial", &dialError{&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}}, tierlock.ReasonAttempt, sure},
	{"no room for another client", &dialError{errNoRoom}, tierlock.ReasonSaturated, sure},
	{"protected mode", &dialError{errProtected}, tierlock.ReasonDenied, sure},
	{"no file descriptor", &dialError{opError("socket", syscall.EMFILE)}, tierlock.ReasonSaturated, sure},
	{"no credentials", &credentialsError{io.EOF}, tierlock.ReasonDenied, sure},
	{"closed while dialling", &dialError{context.Canceled}, tierlock.ReasonBroken, sure},
}

func opError(op string, errno error) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, errno)}
}

func TestFaultTellsReasonAndDoubt(t *testing.T) {
	for _, c := range faultCases {
		t.Run(c.name, func(t *testing.T) {
			got := fault(c.err)
			if got.Reason != c.reason || got.InDoubt != c.inDoubt || got.Done != nil {
				t.Errorf("%v, in doubt %t, done %v; want %v, %t", got, got.InDoubt, got.Done != nil, c.reason, c.inDoubt)
			}
		})
	}
}
