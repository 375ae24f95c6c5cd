package guard

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strconv"

	"github.com/tierlock/tierlock"
)

// TokenHeader carries the caller's fencing token as a decimal.
const TokenHeader = "Lock-Token"

// SetHeader puts token on an outgoing request. Token zero sets nothing.
func SetHeader(h http.Header, token tierlock.Token) {
	if token != 0 {
		h.Set(TokenHeader, strconv.FormatUint(uint64(token), 10))
	}
}

// Header reads the fencing token of a request: zero where it carries none. More than one,
// a sign, spaces or a number outside 1 to 2^64-1 is an InvalidError.
func Header(h http.Header) (tierlock.Token, error) {
	values := h.Values(TokenHeader)
	if len(values) == 0 {
		return 0, nil
	}
	if len(values) > 1 {
		return 0, tierlock.Invalid(TokenHeader, strconv.Itoa(len(values))+" values", "want one")
	}
	n, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil || n == 0 {
		return 0, tierlock.Invalid(TokenHeader, clip(values[0]), "want a decimal from 1 to 18446744073709551615")
	}
	return tierlock.Token(n), nil
}

// Raise raises the kept mark of key to token, or answers [ErrStale] when a higher one
// has been there. [Fence.Raise] is one; a resource without SQL brings its own. It must be
// safe for concurrent use, and its marks must last as long as the resource: kept in memory
// only, they are gone with the next restart, and two instances would each have their own.
type Raise func(ctx context.Context, key tierlock.Key, token tierlock.Token) error

// Raise keeps the marks of [Handler] in the fence's table, each raised and committed in a
// transaction of its own. Token zero is [ErrUnfenced], or passes on record where the fence
// is made so.
func (f *Fence) Raise(db *sql.DB) Raise {
	return func(ctx context.Context, key tierlock.Key, token tierlock.Token) error {
		return Transact(ctx, db, nil, func(tx *sql.Tx) error {
			return f.Enter(ctx, tx, tierlock.Grant{Key: key, Token: token})
		})
	}
}

// Handler lets a request through to next only after its token has raised the mark of the
// key that keyOf names. What it answers by itself: 400 for a bad key or header, 428 for a
// request without a token, 412 for a stale one, 503 when the mark could not be raised.
//
// The check comes before next, not together with its write: a holder that is outbid after
// the check still writes. Where next writes to SQL, call [Fence.Enter] in its transaction
// too.
func Handler(keyOf func(*http.Request) (tierlock.Key, error), raise Raise, next http.Handler) http.Handler {
	return handler(keyOf, raise, false, next)
}

// Handler is the function [Handler] with the marks in the fence's table of db. Where the
// fence lets holders without a token pass, it lets requests without one pass, on record.
func (f *Fence) Handler(db *sql.DB, keyOf func(*http.Request) (tierlock.Key, error), next http.Handler) http.Handler {
	return handler(keyOf, f.Raise(db), f.unfenced, next)
}

func handler(keyOf func(*http.Request) (tierlock.Key, error), raise Raise, unfenced bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := keyOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		token, err := Header(r.Header)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if token == 0 && !unfenced {
			http.Error(w, ErrUnfenced.Error()+": set "+TokenHeader, http.StatusPreconditionRequired)
			return
		}
		switch err := raise(r.Context(), key, token); {
		case errors.Is(err, ErrStale):
			http.Error(w, staleText(err), http.StatusPreconditionFailed)
		case err != nil:
			http.Error(w, "guard: the mark could not be raised; try again", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// staleText tells both tokens where they are known, and nothing of what wraps them.
func staleText(err error) string {
	if stale, ok := errors.AsType[*StaleError](err); ok {
		return stale.Error()
	}
	return ErrStale.Error()
}

// clip keeps an error short when the value is a mistake of some kilobytes.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
