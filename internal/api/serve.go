package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The limits of one connection. A request is a line of JSON and an answer comes within
// the longest wait (2 s), so whoever takes longer is stuck or means harm.
const (
	readHeader = 2 * time.Second
	readAll    = 5 * time.Second
	writeAll   = 10 * time.Second
	idle       = 2 * time.Minute
	maxHeader  = 16 << 10
)

// Serve answers on ln until ctx ends. Then it takes no new connection, lets requests
// under way finish for at most grace, and returns when the last one has; what is left
// after grace is cut off and told as the error. It owns ln.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, grace time.Duration, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeader, ReadTimeout: readAll, WriteTimeout: writeAll, IdleTimeout: idle,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(late)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	<-failed //nolint:errcheck // http.ErrServerClosed: Serve has returned
	return err
}
