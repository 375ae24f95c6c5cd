package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/gateway"
)

// entryShape is the body of unlock and held, renewShape that of renew: the whole lock has
// one end.
var (
	entryShape = shape{required: []string{fieldKey, fieldID}, optional: []string{fieldEntry}}
	renewShape = shape{required: []string{fieldKey, fieldID}, optional: []string{fieldTTL}}
)

// unlock is unlock(key, request id). 409 with reason lost: it was not held any more.
func (a *API) unlock(w http.ResponseWriter, r *http.Request) {
	// A client that hangs up still wants its lock released; the gateway bounds both calls.
	ctx := context.WithoutCancel(r.Context())
	_, l, err := a.attach(ctx, w, r, entryShape)
	if err == nil {
		err = l.Unlock(ctx)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, done{Outcome: tierlock.Success})
}

// held is isHeldByMe(key, request id): the store is asked, not a clock.
func (a *API) held(w http.ResponseWriter, r *http.Request) {
	_, l, err := a.attach(r.Context(), w, r, entryShape)
	mine := false
	if err == nil {
		mine, err = l.IsHeld(r.Context())
	}
	switch {
	case errors.Is(err, tierlock.ErrLost), err == nil && !mine:
		writeJSON(w, http.StatusOK, held{})
	case err != nil:
		writeError(w, err)
	default:
		writeJSON(w, http.StatusOK, held{Held: true, RemainingMS: left(l.Grant().ExpiresAt, time.Now())})
	}
}

// renew is renew(key, request id, ttl); without ttl_ms the chain's. It never shortens and
// never revives.
func (a *API) renew(w http.ResponseWriter, r *http.Request) {
	req, l, err := a.attach(r.Context(), w, r, renewShape)
	if err == nil {
		err = onWire(l.Renew(r.Context(), a.ttl(req)))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	expires := left(l.Grant().ExpiresAt, time.Now())
	writeJSON(w, http.StatusOK, done{Outcome: tierlock.Success, ExpiresInMS: &expires})
}

// ttl is the one that was asked for, or the chain's.
func (a *API) ttl(req request) time.Duration {
	if req.ttl > 0 {
		return req.ttl
	}
	chain, _, err := a.gw.ChainOf(req.key)
	if err != nil {
		return 0 // Attach has refused such a key before
	}
	return chain.Policy().TTL
}

// attach reads the body and finds the lock it names: in this process, or in the store if
// another process (or a former life of this one) took it.
func (a *API) attach(ctx context.Context, w http.ResponseWriter, r *http.Request, want shape) (request, *gateway.Lock, error) {
	req, err := readRequest(w, r, want)
	if err != nil {
		return request{}, nil, err
	}
	opts := []gateway.Option{gateway.WithoutRenew()}
	if req.entry != 0 {
		opts = append(opts, gateway.WithEntry(req.entry))
	}
	l, err := a.gw.Attach(ctx, req.key, req.id, opts...)
	return req, l, err
}
