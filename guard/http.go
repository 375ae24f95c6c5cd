package guard

import (
	"context"
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
// has been there. [Enter] inside a transaction is one; a resource without SQL brings its
// own. It must be safe for concurrent use and durable like the resource itself.
type Raise func(ctx context.Context, key tierlock.Key, token tierlock.Token) error

// Handler lets a request through to next only after its token has raised the mark of the
// key that keyOf names. What it answers by itself: 400 for a bad key or header, 428 for a
// request without a token, 412 for a stale one, 503 when the mark could not be raised.
//
// The check comes before next, not together with its write: a holder that is outbid after
// the check still writes. Where next writes to SQL, call [Enter] in its transaction too.
func Handler(keyOf func(*http.Request) (tierlock.Key, error), raise Raise, next http.Handler) http.Handler {
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
		if token == 0 {
			http.Error(w, ErrUnfenced.Error()+": set "+TokenHeader, http.StatusPreconditionRequired)
			return
		}
		switch err := raise(r.Context(), key, token); {
		case errors.Is(err, ErrStale):
			http.Error(w, ErrStale.Error(), http.StatusPreconditionFailed)
		case err != nil:
			http.Error(w, "guard: the mark could not be raised; try again", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// clip keeps an error short when the value is a mistake of some kilobytes.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
