package flagrule

import (
	"flag"
	"io"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachTypeHasItsRule(t *testing.T) {
	for arg, want := range map[string]string{
		"-for=5":        `invalid value "5" for flag -for: want a duration with its unit, as 300ms or 5s`,
		"-n=many":       `invalid value "many" for flag -n: want a whole number`,
		"-large=1.5":    `invalid value "1.5" for flag -large: want a whole number`,
		"-percent=-1":   `invalid value "-1" for flag -percent: want a whole number, 0 or more`,
		"-offset=x":     `invalid value "x" for flag -offset: want a whole number, 0 or more`,
		"-speed=fast":   `invalid value "fast" for flag -speed: want a number, as 2 or 0.5`,
		"-dry-run=soon": `invalid boolean value "soon" for -dry-run: want true or false`,
		"-nosuch":       `flag provided but not defined: -nosuch`,
		"-name":         `flag needs an argument: -name`,
	} {
		fs := flag.NewFlagSet("x", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		fs.Duration("for", 0, "")
		fs.Int("n", 0, "")
		fs.Int64("large", 0, "")
		fs.Uint("percent", 0, "")
		fs.Uint64("offset", 0, "")
		fs.Float64("speed", 0, "")
		fs.Bool("dry-run", false, "")
		fs.String("name", "", "")
		err := fs.Parse([]string{arg})
		if err == nil {
			t.Errorf("%s: no error", arg)
		} else if got := Told(fs, err); got != want {
			t.Errorf("%s: %s, want %s", arg, got, want)
		}
	}
}
