package tierlock

import (
	"strconv"
	"strings"
)

// words are the names of a closed set, by value; the first one names the zero value and
// is never accepted or written.
type words []string

func (w words) of(i int) string {
	if i >= len(w) {
		return w[0]
	}
	return w[i]
}

func (w words) marshal(field string, i int) ([]byte, error) {
	if i <= 0 || i >= len(w) {
		return nil, Invalid(field, strconv.Itoa(i), "want one of "+strings.Join(w[1:], ", "))
	}
	return []byte(w[i]), nil
}

func unmarshal[T ~uint8](w words, field string, text []byte, into *T) error {
	for i, word := range w[1:] {
		if word == string(text) {
			*into = T(i + 1)
			return nil
		}
	}
	return Invalid(field, clip(string(text)), "want one of "+strings.Join(w[1:], ", "))
}
