package incident

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text that others wrote safe to print: it stays on its line, moves no cursor
// and reverses no order of reading.
func clean(text string) string {
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if !strings.ContainsFunc(text, odd) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if odd(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// causesOf lists the causes of a report, the most frequent first.
func causesOf(r *Report) []string {
	return slices.SortedFunc(maps.Keys(r.Causes), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Causes[b], r.Causes[a]), cmp.Compare(a, b))
	})
}
