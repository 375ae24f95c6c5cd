package daemon

import (
	"io"
	"log/slog"
)

// logger writes to w as the configuration says; it has been checked.
func (l LogConfig) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if l.Level != "" {
		_ = level.UnmarshalText([]byte(l.Level))
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.Format == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}
