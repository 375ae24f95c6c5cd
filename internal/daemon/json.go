package daemon

import (
	"encoding/json"
	"io"
)

// encoder writes one value a line, for programs and for people who look over their shoulder:
// <, > and & stand as they are, since none of it is put into a page.
func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}
