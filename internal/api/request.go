package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// maxBody bounds a request body. A key is at most 256 bytes, so this is plenty.
const maxBody = 64 << 10

// The bounds of what a client may ask for; the design's "Limits".
const (
	minTTL  = time.Second
	maxTTL  = 10 * time.Minute
	maxWait = 2 * time.Second

	maxNumber = 1<<53 - 1 // exact as a JSON number in every language
)

// errTooBig is a body over maxBody.
var errTooBig = tierlock.Invalid("body", "", fmt.Sprintf("at most %d bytes", maxBody))

// request is the body of every method; each method names the fields it takes.
type request struct {
	key     tierlock.Key
	id      tierlock.RequestID
	idGiven bool          // else the server drew it
	wait    time.Duration // 0: the method's own default
	ttl     time.Duration // 0: the chain's
	entry   uint64        // 0: the acquisition itself
	about   *audit.Business
}

// Fields of a request body, as they stand on the wire.
const (
	fieldKey   = "key"
	fieldID    = "request_id"
	fieldWait  = "wait_ms"
	fieldTTL   = "ttl_ms"
	fieldEntry = "entry"
	fieldAbout = "business"
)

// shape says which fields a method takes.
type shape struct{ required, optional []string }

func (s shape) all() []string { return slices.Concat(s.required, s.optional) }

// readRequest reads the body strictly, whatever its Content-Type: one JSON object, no
// unknown, missing or repeated field, nothing behind it. Every fault is reported at once.
func readRequest(w http.ResponseWriter, r *http.Request, want shape) (request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		return request{}, errTooBig
	}
	if err != nil {
		return request{}, tierlock.Invalid("body", "", "could not be read to its end")
	}
	fields, err := splitObject(body)
	if err != nil {
		return request{}, err
	}
	return parseFields(fields, want)
}

// field is one member of the object, its value still as text.
type field struct {
	name  string
	value json.RawMessage
}

// splitObject takes one JSON object apart and nothing else. encoding/json alone would
// let a repeated field, another case of a name and a second value pass.
func splitObject(body []byte) ([]field, error) {
	notObject := tierlock.Invalid("body", "", "want one JSON object")
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, notObject
	}
	var fields []field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, notObject
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, notObject
		}
		fields = append(fields, field{name.(string), value}) // a name inside an object is a string, or Token fails
	}
	if _, err := dec.Token(); err != nil {
		return nil, notObject
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, tierlock.Invalid("body", "", "something follows the JSON object")
	}
	return fields, nil
}

func parseFields(fields []field, want shape) (request, error) {
	var (
		req  request
		errs []error
		seen []string
	)
	known := want.all()
	keep := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, f := range fields {
		switch {
		case !slices.Contains(known, f.name):
			keep(tierlock.Invalid(clip(f.name), "", "is not a field of this method; want "+strings.Join(known, ", ")))
			continue
		case slices.Contains(seen, f.name):
			keep(tierlock.Invalid(f.name, "", "is given twice"))
			continue
		}
		seen = append(seen, f.name)
		keep(req.set(f))
	}
	for _, name := range want.required {
		if !slices.Contains(seen, name) {
			keep(tierlock.Invalid(name, "", "is missing"))
		}
	}
	return req, errors.Join(errs...)
}

func (r *request) set(f field) (err error) {
	switch f.name {
	case fieldKey:
		var s string
		if json.Unmarshal(f.value, &s) != nil || f.value[0] != '"' {
			return tierlock.Invalid(f.name, clip(string(f.value)), "want a string")
		}
		r.key, err = tierlock.ParseKey(s)
	case fieldID:
		var s string
		if json.Unmarshal(f.value, &s) != nil || f.value[0] != '"' {
			return tierlock.Invalid(f.name, "", "want a string of 32 lower-case hex digits")
		}
		r.idGiven = true
		r.id, err = tierlock.ParseRequestID(s)
	case fieldWait:
		r.wait, err = millis(f, 0, maxWait)
	case fieldTTL:
		r.ttl, err = millis(f, minTTL, maxTTL)
	case fieldEntry:
		r.entry, err = number[uint64](f, 1, maxNumber)
	case fieldAbout:
		r.about, err = business(f)
	}
	return err
}

// millis reads a whole number of milliseconds between low and high.
func millis(f field, low, high time.Duration) (time.Duration, error) {
	n, err := number(f, low.Milliseconds(), high.Milliseconds())
	return time.Duration(n) * time.Millisecond, err
}

// number reads a whole number between low and high.
func number[T int64 | uint64](f field, low, high T) (T, error) {
	n, err := strconv.ParseInt(string(f.value), 10, 64)
	if err != nil || n < int64(low) || n > int64(high) {
		return 0, tierlock.Invalid(f.name, clip(string(f.value)), fmt.Sprintf("want a whole number from %d to %d", low, high))
	}
	return T(n), nil
}

// clip keeps an answer short when the value is a mistake of some kilobytes.
func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
