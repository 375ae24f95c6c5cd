package reconcile

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tierlock/tierlock/audit"
)

// storable is s as every database holds it: PostgreSQL refuses a NUL in a text, and whatever
// is no UTF-8. What comes out of an event is written by others, and must not stop the job.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", `\u0000`)
}

// nameless says why a hold's words name no record; "" when they do. Gateways refuse such
// words, but there are events of older ones and of other writers. No record can be looked
// up by them: a NUL is in no column of PostgreSQL, and U+FFFD stands where bytes of the
// real id are lost, so that it may be the id of another record.
func nameless(b *audit.Business) string {
	for _, word := range [...]struct{ field, value string }{{"type", b.Type}, {"id", b.ID}, {"op", b.Op}} {
		for i, r := range word.value {
			if r == 0 || r == utf8.RuneError {
				return fmt.Sprintf("business.%s %+q: byte 0x%02x at %d: want UTF-8 without NUL and U+FFFD", word.field, word.value, word.value[i], i)
			}
		}
	}
	return ""
}
