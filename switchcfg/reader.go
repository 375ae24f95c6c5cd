package switchcfg

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierlock/tierlock"
)

// reader walks a tree of YAML nodes beside a Go value and collects what does not fit. The
// library's own strict mode stops at a type error's first sight of a field, names Go types
// instead of paths and lets numbers pass for text and for durations.
type reader struct {
	faults []error
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

// value reads n into v.
func (r *reader) value(path string, n *yaml.Node, v reflect.Value) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fault(path, n, "anchors and aliases are not read: write it out")
	case isNull(n):
		r.fault(path, n, "is empty: give it a value or leave it out")
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		r.value(path, n, v.Elem())
	case v.Type() == durationType:
		r.duration(path, n, v)
	default:
		switch own := v.Addr().Interface().(type) {
		case yamlUnmarshaler:
			r.own(path, n, own)
		case encoding.TextUnmarshaler:
			r.text(path, n, own)
		default:
			r.kind(path, n, v)
		}
	}
}

// yamlUnmarshaler is the form of the library's interface that needs no import of it.
type yamlUnmarshaler interface {
	UnmarshalYAML(read func(into any) error) error
}

// own lets a type read itself. What it returns of the function's errors is as if it had
// been found here.
func (r *reader) own(path string, n *yaml.Node, v yamlUnmarshaler) {
	err := v.UnmarshalYAML(func(into any) error {
		var below reader
		below.value(path, n, reflect.ValueOf(into).Elem())
		return errors.Join(below.faults...)
	})
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case ok:
		r.faults = append(r.faults, joined.Unwrap()...)
	case err != nil:
		r.faults = append(r.faults, err)
	}
}

// kind reads the plain Go kinds.
func (r *reader) kind(path string, n *yaml.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		r.structure(path, n, v)
	case reflect.Map:
		r.mapping(path, n, v)
	case reflect.Slice:
		r.sequence(path, n, v)
	case reflect.String:
		if r.scalar(path, n, "want text (in quotes, if it looks like something else)", "!!str") {
			v.SetString(n.Value)
		}
	case reflect.Bool:
		if r.scalar(path, n, "want true or false", "!!bool") {
			v.SetBool(strings.EqualFold(n.Value, "true"))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		limit := int64(math.MaxInt64) >> (64 - v.Type().Bits())
		i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
		rule := fmt.Sprintf("want a whole number from %d to %d", -limit-1, limit)
		if limit == math.MaxInt64 && !errors.Is(err, strconv.ErrRange) { // bounds that nobody meets tell nothing
			rule = "want a whole number"
			if strings.HasSuffix(path, "_bytes") {
				rule += ", in bytes, without a unit"
			}
		}
		if r.number(path, n, rule, err, "!!int") {
			v.SetInt(i)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		rule := fmt.Sprintf("want a whole number from 0 to %d", uint64(math.MaxUint64)>>(64-v.Type().Bits()))
		if u, err := strconv.ParseUint(n.Value, 10, v.Type().Bits()); r.number(path, n, rule, err, "!!int") {
			v.SetUint(u)
		}
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, v.Type().Bits())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			err = strconv.ErrRange
		}
		if r.number(path, n, "want a number", err, "!!int", "!!float") {
			v.SetFloat(f)
		}
	default:
		if v.Kind() == reflect.Interface && v.NumMethod() == 0 {
			r.anything(path, n, v)
			return
		}
		r.unsupported(path, v)
	}
}

// anything reads into an empty interface what the text looks like.
func (r *reader) anything(path string, n *yaml.Node, v reflect.Value) {
	var err error
	switch n.Kind {
	case yaml.MappingNode:
		below := map[string]any{}
		r.mapping(path, n, reflect.ValueOf(below))
		v.Set(reflect.ValueOf(below))
	case yaml.SequenceNode:
		var below []any
		r.sequence(path, n, reflect.ValueOf(&below).Elem())
		v.Set(reflect.ValueOf(below))
	default:
		var scalar any
		if err = n.Decode(&scalar); err == nil {
			if f, ok := scalar.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
				r.fault(path, n, "want a number") // JSON has no word for it, and with that no hash tells it from another
				return
			}
			v.Set(reflect.ValueOf(scalar))
		}
	}
	if err != nil {
		r.fault(path, n, strings.TrimPrefix(err.Error(), "yaml: "))
	}
}

// unsupported is a mistake in the Go type, not in the text.
func (r *reader) unsupported(path string, v reflect.Value) {
	r.faults = append(r.faults, fmt.Errorf("switchcfg: cannot read %s into a %s", orText(path), v.Type()))
}

// structure reads a mapping whose names are the struct's fields.
func (r *reader) structure(path string, n *yaml.Node, v reflect.Value) {
	fields := map[string]reflect.Value{}
	var names []string
	var rest reflect.Value // the inlined map that takes every other name
	collect(v, func(name string, f reflect.Value) {
		if name == "" {
			rest = f
			return
		}
		fields[name] = f
		names = append(names, name)
	})
	r.pairs(path, n, func(path, name string, key, value *yaml.Node) {
		if f, ok := fields[name]; ok {
			r.value(path, value, f)
		} else if rest.IsValid() {
			r.entry(path, name, value, rest)
		} else {
			r.add(path, value, key.Line, "is not known here: want one of "+strings.Join(names, ", "))
		}
	})
}

// collect calls each with the fields of v as files name them, those of inlined structs
// included; "" names an inlined map.
func collect(v reflect.Value, each func(name string, f reflect.Value)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case !field.IsExported() || name == "-":
		case strings.Contains(options, "inline") && field.Type.Kind() == reflect.Struct:
			collect(v.Field(i), each)
		case strings.Contains(options, "inline"):
			each("", v.Field(i))
		case name == "":
			each(strings.ToLower(field.Name), v.Field(i))
		default:
			each(name, v.Field(i))
		}
	}
}

// mapping reads a mapping of any names.
func (r *reader) mapping(path string, n *yaml.Node, v reflect.Value) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	r.pairs(path, n, func(path, name string, _, value *yaml.Node) { r.entry(path, name, value, v) })
}

// entry reads one value of a map. What the map already holds under that name is the
// value's default.
func (r *reader) entry(path, name string, n *yaml.Node, v reflect.Value) {
	if v.Kind() != reflect.Map || v.Type().Key().Kind() != reflect.String {
		r.unsupported(path, v)
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	key, elem := reflect.ValueOf(name).Convert(v.Type().Key()), reflect.New(v.Type().Elem()).Elem()
	if was := v.MapIndex(key); was.IsValid() {
		elem.Set(was)
	}
	r.value(path, n, elem)
	v.SetMapIndex(key, elem)
}

// pairs calls each for every name of a mapping, once.
func (r *reader) pairs(path string, n *yaml.Node, each func(path, name string, key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fault(path, n, "want fields (name: value)")
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() == "!!merge" {
			r.fault(path, key, "want a plain name before the colon")
			continue
		}
		below := strings.TrimPrefix(path+"."+key.Value, ".")
		if first, twice := lines[key.Value]; twice {
			r.add(below, value, key.Line, fmt.Sprintf("is given twice, first in line %d", first))
			continue
		}
		lines[key.Value] = key.Line
		each(below, key.Value, key, value)
	}
}

// sequence reads a list; it replaces what v held.
func (r *reader) sequence(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		r.fault(path, n, "want a list")
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		r.value(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i))
	}
	v.Set(list)
}

func (r *reader) fault(path string, n *yaml.Node, rule string) { r.add(path, n, n.Line, rule) }

func (r *reader) add(path string, n *yaml.Node, line int, rule string) {
	if len(r.faults) > maxFaults {
		return
	}
	if len(r.faults) == maxFaults {
		r.faults = append(r.faults, tierlock.Invalid("text", "", fmt.Sprintf("breaks more rules; the first %d are told", maxFaults)))
		return
	}
	if line > 0 {
		rule = fmt.Sprintf("%s (line %d)", rule, line)
	}
	r.faults = append(r.faults, tierlock.Invalid(orText(path), shown(path, n), rule))
}

// shown is a scalar's text as far as a message may repeat it.
func shown(path string, n *yaml.Node) string {
	for _, secret := range []string{"password", "secret", "token", "dsn"} {
		if strings.Contains(strings.ToLower(path), secret) {
			return ""
		}
	}
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	if len(n.Value) > 64 {
		return strings.ToValidUTF8(n.Value[:64], "") + "…"
	}
	return n.Value
}

func orText(path string) string {
	if path == "" {
		return "text"
	}
	return path
}
