package gateway

import (
	"errors"
	"time"
)

const (
	widthFirst = 16                    // releases out at once, beside what may hang: a store that comes back is not met by a herd
	widthMost  = 256                   // a few calls of as many as a store may carry in one
	widthQuick = 20 * time.Millisecond // an answer that took less asks for one more, one that took more for one less
)

// width is how many releases the ledger has out at once. Thousands of callers may have
// left within a second; what each of them left is settled soon after only if a store that
// answers is asked for as much at once as it can carry together. One that does not, or
// takes its time, is asked for no more than few. The zero width is the first.
type width struct{ more int }

func (w *width) now() int { return widthFirst + w.more }

// learn takes in how one release has ended.
func (w *width) learn(took time.Duration, err error) {
	switch {
	case errors.Is(err, errNotAsked): // says nothing
	case err != nil:
		w.more = 0
	case took < widthQuick:
		w.more = min(w.more+1, widthMost-widthFirst)
	default:
		w.more = max(w.more-1, 0)
	}
}
