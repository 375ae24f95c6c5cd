package reconcile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tierlock/tierlock"
)

// expand turns the {words} of a hook's SQL into placeholders and returns their values in
// order. Braces inside quotes or comments are the statement's own. An unknown word is an
// InvalidError.
func expand(text string, d Dialect, value func(word string) any) (query string, args []any, err error) {
	var b strings.Builder
	for i := 0; i < len(text); {
		if n := literal(text[i:]); n > 0 {
			b.WriteString(text[i : i+n])
			i += n
			continue
		}
		if text[i] != '{' {
			b.WriteByte(text[i])
			i++
			continue
		}
		word, _, closed := strings.Cut(text[i+1:], "}")
		if !closed || !slices.Contains(caseWords, word) {
			return "", nil, tierlock.Invalid("sql", text[i:min(len(text), i+24)], "want one of {"+strings.Join(caseWords, "} {")+"}")
		}
		args = append(args, value(word))
		if d == Postgres {
			b.WriteString("$" + strconv.Itoa(len(args)))
		} else {
			b.WriteByte('?')
		}
		i += len(word) + 2
	}
	return b.String(), args, nil
}

// literal is the length of the quoted string, quoted name or comment that text starts
// with; zero when it starts with none of them.
func literal(text string) int {
	end := func(open int, mark string) int {
		if n := strings.Index(text[open:], mark); n >= 0 {
			return open + n + len(mark)
		}
		return len(text)
	}
	switch {
	case text[0] == '\'' || text[0] == '"' || text[0] == '`':
		return end(1, text[:1])
	case strings.HasPrefix(text, "--"):
		return end(2, "\n")
	case strings.HasPrefix(text, "/*"):
		return end(2, "*/")
	}
	return 0
}
