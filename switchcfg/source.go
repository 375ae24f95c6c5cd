package switchcfg

import "context"

// Source is where the document lives. Fetch is the truth and is polled. It returns what is
// there now, or an error; never an old copy. Empty text is no document. It returns soon
// after ctx ends.
type Source interface {
	Fetch(ctx context.Context) ([]byte, error)
}

// Pusher is a Source that can also tell that something may have changed. That is never
// more than a hint to fetch: a lost, late or reordered one costs time, not truth.
type Pusher interface {
	Source
	// Watch calls wake, from any goroutine, after every change it hears of, until ctx
	// ends. wake does not block. Watch returns when its own goroutines have ended.
	Watch(ctx context.Context, wake func()) error
}
