package switchcfg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tierlock/tierlock"
)

const (
	maxText   = 1 << 20 // a document is read by people: 1 MiB is far more than one holds
	maxFaults = 50      // a text of another kind altogether would break a rule on every line
)

// Decode reads one YAML or JSON text strictly into the struct or map that into points at.
// What the text does not say keeps the value it has: set defaults first.
//
// Every fault is reported at once, each a [*tierlock.InvalidError] whose Field is the
// dotted path (chains.coupon.until) and whose Rule ends with the line: a field that is not
// known, given twice, empty or of the wrong type, a duration without its unit, an anchor,
// an alias, a second document, an empty text. After an error into holds whatever had been
// read and must not be used. The values of fields whose name tells of a secret are not
// repeated.
//
// Fields are named by their yaml tag ("-" and "inline" as in that library), else by their
// lower-case name. A type that unmarshals text is read from any scalar, a duration from
// text such as 5s, a time from RFC 3339. A type with UnmarshalYAML(func(any) error) error
// may call the function more than once, say to look at one field before it sets defaults.
func Decode(text []byte, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("switchcfg: Decode into %T, want a pointer", into)
	}
	root, err := parse(text)
	if err != nil {
		return err
	}
	var r reader
	r.value("", root, v.Elem())
	return errors.Join(r.faults...)
}

// parse returns the one document of text as a tree.
func parse(text []byte) (*yaml.Node, error) {
	if len(text) > maxText {
		return nil, tierlock.Invalid("text", "", fmt.Sprintf("is %d bytes, want at most %d", len(text), maxText))
	}
	in := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := in.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, tierlock.Invalid("text", "", "is empty")
	} else if err != nil {
		return nil, syntaxFault(err)
	}
	if err := in.Decode(&second); err == nil {
		return nil, tierlock.Invalid("text", "", fmt.Sprintf("holds a second document (line %d)", second.Line))
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(err)
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return nil, tierlock.Invalid("text", "", "is empty")
	}
	return doc.Content[0], nil
}

func syntaxFault(err error) error {
	return tierlock.Invalid("text", "", "is neither YAML nor JSON: "+strings.TrimPrefix(err.Error(), "yaml: "))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
