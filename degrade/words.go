package degrade

import (
	"strconv"
	"strings"

	"github.com/tierlock/tierlock"
)

// words are the names of a closed set, by value. The first one names the zero value and
// is never accepted.
type words []string

func (w words) of(i int) string {
	if i >= len(w) {
		return "invalid"
	}
	return w[i]
}

func (w words) marshal(field string, i int) ([]byte, error) {
	if i >= len(w) {
		return nil, tierlock.Invalid(field, strconv.Itoa(i), w.rule())
	}
	return []byte(w[i]), nil
}

func (w words) rule() string { return "want one of " + strings.Join(w[1:], ", ") }

func unmarshal[T ~uint8](w words, field string, text []byte, into *T) error {
	for i, word := range w[1:] {
		if word == string(text) {
			*into = T(i + 1)
			return nil
		}
	}
	return tierlock.Invalid(field, string(text[:min(len(text), 64)]), w.rule())
}
