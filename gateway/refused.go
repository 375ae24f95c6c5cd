package gateway

import (
	"errors"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// refusal is what a resource answers to a token that another has outbid: package guard's
// StaleError is one.
type refusal interface {
	error
	Refused() (tierlock.Key, tierlock.Token)
}

// Refused hands the lock an answer of its resource, and tells whether that refused this
// lock's token: then a later holder has been let in, so the lock is lost, whatever the
// store says. Its contexts end with a cause that matches [tierlock.ErrLost] and holds err,
// the end event says lost, the Lost hook is told, and Unlock gives back what the store may
// still have. Any other error, nil, and a refusal
// of another key or token change nothing. [Chain.Do] hands it the error of its work.
func (l *Lock) Refused(err error) bool {
	if l == nil || err == nil {
		return false
	}
	r, ok := errors.AsType[refusal](err)
	if !ok {
		return false
	}
	key, token := r.Refused()
	if g := l.Grant(); token == 0 || key != g.Key || token != g.Token {
		return false
	}
	l.lose(audit.Lost, err)
	return true
}
