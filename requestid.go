package tierlock

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// RequestID is 128 random bits. It names one acquisition, is the lock's value in the
// store and the secret that releases it. String, every fmt verb, text encodings and logs
// show its fingerprint only; [RequestID.Secret] alone shows the id. The zero RequestID is
// invalid. RequestIDs are comparable.
type RequestID struct{ b [16]byte }

// NewRequestID draws a fresh one from crypto/rand.
func NewRequestID() RequestID {
	var id RequestID
	rand.Read(id.b[:]) // never fails: crypto/rand ends the process where the system has no randomness
	return id
}

// ParseRequestID accepts exactly 32 lower-case hex digits, not all of them zero. The
// error is an [*InvalidError] and never shows the text: it may be a real secret with one
// digit wrong.
func ParseRequestID(s string) (RequestID, error) {
	if len(s) != 32 {
		return RequestID{}, Invalid("request_id", "", fmt.Sprintf("want 32 lower-case hex digits, got %d bytes", len(s)))
	}
	var id RequestID
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return RequestID{}, Invalid("request_id", "", fmt.Sprintf("byte at %d is not a lower-case hex digit", i))
		}
	}
	if _, err := hex.Decode(id.b[:], []byte(s)); err != nil {
		return RequestID{}, Invalid("request_id", "", "want 32 lower-case hex digits")
	}
	if id.IsZero() {
		return RequestID{}, Invalid("request_id", "", "is all zero")
	}
	return id, nil
}

// IsZero tells whether id is the invalid zero RequestID.
func (id RequestID) IsZero() bool { return id == RequestID{} }

// Secret returns the id itself, 32 lower-case hex digits: what stands in the store and on
// the wire, and must not stand in a log.
func (id RequestID) Secret() string { return hex.EncodeToString(id.b[:]) }

// AppendSecret adds what Secret returns to b, and needs no memory where b has room.
func (id RequestID) AppendSecret(b []byte) []byte { return hex.AppendEncode(b, id.b[:]) }

// Fingerprint is the first 16 hex digits of SHA-256 over the 32 digits of [RequestID.Secret].
// It tells two acquisitions apart and releases neither.
func (id RequestID) Fingerprint() string {
	var room [16]byte
	return string(id.AppendFingerprint(room[:0]))
}

// AppendFingerprint adds what Fingerprint returns to b, and needs no memory where b has room.
func (id RequestID) AppendFingerprint(b []byte) []byte {
	var text [32]byte
	hex.Encode(text[:], id.b[:])
	sum := sha256.Sum256(text[:])
	return hex.AppendEncode(b, sum[:8])
}

// FingerprintOf is the fingerprint of whatever value a store holds, so that a lock taken
// in another format can be named without being shown.
func FingerprintOf(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:8])
}

// String returns the fingerprint.
func (id RequestID) String() string { return id.Fingerprint() }

// Format writes the fingerprint for every verb, so that no %x or %d leaks the id.
func (id RequestID) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, id.Fingerprint()) }

// MarshalText returns the fingerprint. There is no way back from it.
func (id RequestID) MarshalText() ([]byte, error) { return []byte(id.Fingerprint()), nil }

// LogValue returns the fingerprint.
func (id RequestID) LogValue() slog.Value { return slog.StringValue(id.Fingerprint()) }
