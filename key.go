package tierlock

import "fmt"

// maxKey is the length of the longest key in bytes.
const maxKey = 256

// Key names one lock. A Key in hand is a valid one: only [ParseKey] makes them, so no
// store has to check again. The zero Key is invalid. Keys are comparable.
type Key struct{ s string }

// ParseKey accepts 1 to 256 bytes of a-z A-Z 0-9 _ : . - and nothing else. The error is
// an [*InvalidError] that names the first byte that is not one of them, and its place.
func ParseKey(s string) (Key, error) {
	if len(s) == 0 || len(s) > maxKey {
		return Key{}, Invalid("key", clip(s), fmt.Sprintf("want 1 to %d bytes, got %d", maxKey, len(s)))
	}
	for i := range len(s) {
		if !keyByte(s[i]) {
			return Key{}, Invalid("key", clip(s), fmt.Sprintf("byte %s at %d is not one of a-z A-Z 0-9 _ : . -", quoteByte(s[i]), i))
		}
	}
	return Key{s}, nil
}

// String returns the whole key, as it stands in the store.
func (k Key) String() string { return k.s }

// IsZero tells whether k is the invalid zero Key.
func (k Key) IsZero() bool { return k.s == "" }

// Hash is FNV-1a, 64 bits, over the key's bytes. A canary percentage is taken from it, so
// every process and every language puts a key on the same side.
func (k Key) Hash() uint64 {
	h := uint64(14695981039346656037)
	for i := range len(k.s) {
		h = (h ^ uint64(k.s[i])) * 1099511628211
	}
	return h
}

// MarshalText returns the key's bytes.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.s), nil }

// UnmarshalText accepts what [ParseKey] accepts.
func (k *Key) UnmarshalText(text []byte) error {
	got, err := ParseKey(string(text))
	if err != nil {
		return err
	}
	*k = got
	return nil
}

func keyByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '_' || c == ':' || c == '.' || c == '-'
}

// quoteByte shows one byte of unknown text: as itself where it is printable ASCII, else
// in hex, since a byte of a longer rune means nothing alone.
func quoteByte(c byte) string {
	if c >= ' ' && c <= '~' {
		return "'" + string(rune(c)) + "'"
	}
	return fmt.Sprintf("0x%02x", c)
}

// clip keeps an error short when the value is a mistake of some megabytes.
func clip(s string) string {
	if len(s) > maxKey {
		return s[:maxKey] + "…"
	}
	return s
}
