package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

var errNoPassword = errors.New("the credentials have no password")

// credentials is who new connections say they are. It remembers the last good answer of
// its source: a file that is being replaced, or a vault that is away for a moment, must
// not keep the store from being reached.
type credentials struct {
	source func(ctx context.Context) (username, password string, err error)
	log    *slog.Logger

	mu   sync.Mutex // guards what follows
	last *pair
}

type pair struct{ username, password string }

// get is asked by go-redis before it greets a server on a new connection.
func (c *credentials) get(ctx context.Context) (username, password string, err error) {
	// With a timer of its own: a question has none until go-redis waits, and the source
	// may wait for nothing but ctx.
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	username, password, err = c.source(ctx)
	if err == nil && password == "" {
		err = errNoPassword
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last = &pair{username, password}
		return username, password, nil
	}
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err() // the caller has no time left: that is no fault of the source
	case c.last == nil:
		return "", "", &credentialsError{err}
	}
	c.log.WarnContext(ctx, "no new redis credentials, the last ones are used", slog.Any("error", err))
	return c.last.username, c.last.password, nil
}

// credentialsError says that nobody could tell who we are: nothing was sent. It does not
// unwrap, since go-redis strips one layer of what unwraps.
type credentialsError struct{ cause error }

func (e *credentialsError) Error() string { return "redis credentials: " + e.cause.Error() }
