// Package flagrule says what a flag wants where the flag package says "parse error" only.
package flagrule

import (
	"flag"
	"strings"
	"time"
)

// Told is the flag package's error of fs, with the rule of the flag's type in place of
// "parse error".
func Told(fs *flag.FlagSet, err error) string {
	text := err.Error()
	fs.VisitAll(func(f *flag.Flag) {
		said, found := strings.CutSuffix(text, " -"+f.Name+": parse error")
		value, typed := f.Value.(flag.Getter)
		if !found || !typed {
			return
		}
		var rule string
		switch value.Get().(type) {
		case time.Duration:
			rule = "want a duration with its unit, as 300ms or 5s"
		case int, int64:
			rule = "want a whole number"
		case uint, uint64:
			rule = "want a whole number, 0 or more"
		case float64:
			rule = "want a number, as 2 or 0.5"
		case bool:
			rule = "want true or false"
		default:
			return
		}
		text = said + " -" + f.Name + ": " + rule
	})
	return text
}
