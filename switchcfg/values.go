package switchcfg

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Values are fields by name, as a text gave them, for a type that this package does not
// know.
type Values map[string]any

// Decode reads v into what into points at, as [Decode] reads a text: what v does not name
// keeps its value. The faults name no line.
func (v Values) Decode(into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("switchcfg: Decode into %T, want a pointer", into)
	}
	var root yaml.Node
	if err := root.Encode(map[string]any(v)); err != nil {
		return err
	}
	unline(&root)
	var r reader
	r.value("", &root, target.Elem())
	return errors.Join(r.faults...)
}

// Names are the dotted names of the fields, sorted.
func (v Values) Names() []string {
	var names []string
	for name, value := range v {
		below, ok := value.(map[string]any)
		if !ok {
			names = append(names, name)
			continue
		}
		for _, rest := range Values(below).Names() {
			names = append(names, name+"."+rest)
		}
	}
	slices.Sort(names)
	return names
}

// Get is the value of a dotted name; nil for none.
func (v Values) Get(name string) any {
	first, rest, deeper := strings.Cut(name, ".")
	below, _ := v[first].(map[string]any)
	if deeper {
		return Values(below).Get(rest)
	}
	return v[name]
}

// With is a copy of v in which the dotted name has the value; nil takes it out.
func (v Values) With(name string, value any) Values {
	all := maps.Clone(v)
	if all == nil {
		all = Values{}
	}
	first, rest, deeper := strings.Cut(name, ".")
	if deeper {
		below, _ := v[first].(map[string]any)
		value = map[string]any(Values(below).With(rest, value))
		if len(value.(map[string]any)) == 0 {
			value = nil
		}
	}
	if all[first] = value; value == nil {
		delete(all, first)
	}
	return all
}

// String tells every field, for people: local.permits=1 wait=500ms.
func (v Values) String() string {
	var b strings.Builder
	for i, name := range v.Names() {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%v", name, v.Get(name))
	}
	return b.String()
}

// unline takes out the lines of a text that nobody wrote.
func unline(n *yaml.Node) {
	n.Line = 0
	for _, below := range n.Content {
		unline(below)
	}
}
