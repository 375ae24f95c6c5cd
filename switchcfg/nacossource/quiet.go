package nacossource

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// quiet is the SDK's logger. In a network fault the SDK writes an error many times a
// second; what matters of it comes back as the error of a fetch and is told once. So
// everything it says is at debug level here, with its own level beside. What it says at
// debug level itself is left out: requests and answers whole, with access tokens and contents.
type quiet struct {
	log    *slog.Logger
	secret string // never repeated
}

// contents is where the SDK repeats a configuration's text, tokens where it repeats what it
// got for a login.
var (
	contents = regexp.MustCompile(`(?s)content=.*?(, type=|$)`)
	tokens   = regexp.MustCompile(`(?i)(access_?token\W+(?:value\W+)?)[\w.~+/-]+`)
)

func (q quiet) say(level, text string) {
	text = contents.ReplaceAllString(text, "content=[left out]$1")
	text = tokens.ReplaceAllString(text, "$1[left out]")
	if q.secret != "" {
		text = strings.ReplaceAll(text, q.secret, "[left out]")
	}
	q.log.Debug("nacos client says", "sdk_level", level, "text", text)
}

// on spares the formatting where nobody listens.
func (q quiet) on() bool { return q.log.Enabled(context.Background(), slog.LevelDebug) }

func (q quiet) print(level string, args []any) {
	if q.on() {
		q.say(level, fmt.Sprint(args...))
	}
}

func (q quiet) printf(level, format string, args []any) {
	if q.on() {
		q.say(level, fmt.Sprintf(format, args...))
	}
}

func (q quiet) Debug(...any)                 {}
func (q quiet) Info(args ...any)             { q.print("info", args) }
func (q quiet) Warn(args ...any)             { q.print("warn", args) }
func (q quiet) Error(args ...any)            { q.print("error", args) }
func (q quiet) Debugf(string, ...any)        {}
func (q quiet) Infof(f string, args ...any)  { q.printf("info", f, args) }
func (q quiet) Warnf(f string, args ...any)  { q.printf("warn", f, args) }
func (q quiet) Errorf(f string, args ...any) { q.printf("error", f, args) }
