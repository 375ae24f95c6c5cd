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
	if l.Format == "text" {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: durations}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// durations writes a duration as the configuration has it, 10s: JSON would show nanoseconds.
func durations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
