package switchcfg

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// lastGood is the file that keeps the document in force over a restart. Sources have
// caches of their own, which tell neither their age nor whether they are whole; this one
// does. JSON, so that a person can read it.
type lastGood struct {
	Version   uint64          `json:"version"`
	FetchedAt time.Time       `json:"fetched_at"` // wall clock
	SHA256    string          `json:"sha256"`     // of document, byte for byte
	Document  json.RawMessage `json:"document"`
}

// saveLastGood replaces the file in one step. Its mode is 0600: nobody but this process's
// user has to read it.
func saveLastGood(path string, d Document, fetched time.Time) error {
	doc, err := json.Marshal(d)
	if err != nil {
		return err
	}
	text, err := json.Marshal(lastGood{d.Version, fetched.UTC().Round(0), sum(doc), doc})
	if err != nil {
		return err
	}
	return replaceFile(path, append(text, '\n'), 0o600)
}

// loadLastGood returns the kept document; ok is false where there is none. A file that is
// damaged in any way is an error and no document.
func loadLastGood(path string) (d Document, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Document{}, false, nil
	}
	if err != nil {
		return Document{}, false, err
	}
	var kept lastGood
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&kept); err != nil {
		return Document{}, false, fmt.Errorf("%s is damaged: %w", path, err)
	}
	if kept.SHA256 != sum(kept.Document) {
		return Document{}, false, fmt.Errorf("%s is damaged: its checksum does not fit", path)
	}
	if d, err = Parse(kept.Document); err != nil {
		return Document{}, false, fmt.Errorf("%s: %w", path, err)
	}
	if d.Version != kept.Version {
		return Document{}, false, fmt.Errorf("%s is damaged: it keeps version %d of %d", path, d.Version, kept.Version)
	}
	return d, true, nil
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
