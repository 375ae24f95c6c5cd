package switchctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tierlock/tierlock/switchcfg"
)

// Entry is one published version.
type Entry struct {
	At       time.Time          `json:"at"` // wall clock of whoever published
	By       string             `json:"by"`
	Document switchcfg.Document `json:"document"`
	Changes  []Change           `json:"changes"`
}

// line is the entry as one line of JSON.
func (e Entry) line() ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// readEntries reads lines of entries, oldest first. A last line that was cut off by a crash
// is left out; a line in the middle that is no entry is an error.
func readEntries(text []byte) ([]Entry, error) {
	var all []Entry
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			if !whole {
				break
			}
			return all, fmt.Errorf("line %d of the history is no entry: %w", n, err)
		}
		all = append(all, e)
	}
	return all, nil
}
