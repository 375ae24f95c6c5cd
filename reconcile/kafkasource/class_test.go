package kafkasource

import (
	"strings"
	"testing"

	"github.com/tierlock/tierlock/audit"
)

// What a later version has written is told apart from what never was an event.
func TestClassOfADeadLetter(t *testing.T) {
	const event = `{"v":1,"type":"hello","id":"p/1/1","producer":"p","epoch":1,"seq":1,"prev":0,"at":"2026-11-29T10:00:00Z"}`
	if _, err := audit.Parse([]byte(event)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		strings.Replace(event, `"v":1`, `"v":2`, 1):     ClassVersion,
		strings.Replace(event, `"seq":1`, `"seq":0`, 1): ClassMalformed,
		"{": ClassMalformed,
		strings.Replace(event, `"type":"hello"`, `"type":"new"`, 1): ClassMalformed,
	} {
		if _, err := audit.Parse([]byte(text)); err == nil || classOf(err) != want {
			t.Errorf("%s: %v is %s, want %s", text, err, classOf(err), want)
		}
	}
}
