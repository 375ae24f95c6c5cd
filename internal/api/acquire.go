package api

import (
	"net/http"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// acquireShape is the body of try and lock.
var acquireShape = shape{required: []string{fieldKey}, optional: []string{fieldID, fieldWait, fieldTTL, fieldEntry, fieldAbout}}

// try is tryLock(key, request id, wait, ttl): one attempt, or attempts for wait_ms.
func (a *API) try(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(w, r, acquireShape)
	if err != nil {
		writeError(w, err)
		return
	}
	a.acquire(w, r, req, req.wait > 0)
}

// lock is lock(key, request id, ttl): it waits the chain's budget, or wait_ms if that is
// given and above 0.
func (a *API) lock(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(w, r, acquireShape)
	if err != nil {
		writeError(w, err)
		return
	}
	a.acquire(w, r, req, true)
}

func (a *API) acquire(w http.ResponseWriter, r *http.Request, req request, waits bool) {
	chain, id, err := a.gw.ChainOf(req.key)
	if err != nil {
		writeError(w, err)
		return
	}
	switch {
	case req.entry != 0 && !req.idGiven:
		writeError(w, tierlock.Invalid(fieldID, "", "is missing: it names the lock that entry enters"))
		return
	case !req.idGiven:
		req.id = tierlock.NewRequestID()
	}
	call := chain.TryLock
	if waits {
		call = chain.Lock
	}
	l, err := call(r.Context(), id, req.options()...)
	if err != nil {
		writeError(w, onWire(err))
		return
	}
	a.grant(w, r, req, l)
}

// grant answers with a lock in hand. A client that named the request can always ask
// again, or unlock; one that left the name to us knows it from this answer only. So where
// that answer cannot arrive (the client has gone, a panic) the lock is given back, since
// nobody could. A named lock is kept: the client may be repeating the call on another
// connection right now, and would lose what that call returns.
func (a *API) grant(w http.ResponseWriter, r *http.Request, req request, l *gateway.Lock) {
	answered := false
	defer func() {
		if !answered && !req.idGiven {
			_ = l.Unlock(r.Context()) // hooks count it
		}
	}()
	if r.Context().Err() != nil {
		return
	}
	body := grantBody(l.Grant(), l.Reason(), time.Now())
	body.Entry = req.entry
	writeJSON(w, http.StatusOK, body)
	answered = true
}

// options are the request's, for the gateway. Nothing taken here is renewed by itself.
func (r *request) options() []gateway.Option {
	opts := []gateway.Option{gateway.WithoutRenew(), gateway.WithRequestID(r.id)}
	if r.entry != 0 {
		opts = append(opts, gateway.Reenter(r.id), gateway.WithEntry(r.entry))
	}
	if r.about != nil {
		opts = append(opts, gateway.About(*r.about))
	}
	if r.ttl > 0 {
		opts = append(opts, gateway.WithTTL(r.ttl))
	}
	if r.wait > 0 {
		opts = append(opts, gateway.WithWait(r.wait))
	}
	return opts
}
