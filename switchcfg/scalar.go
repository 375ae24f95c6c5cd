package switchcfg

import (
	"encoding"
	"errors"
	"reflect"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierlock/tierlock"
)

// What one scalar must look like, by the type it is read into.

func (r *reader) duration(path string, n *yaml.Node, v reflect.Value) {
	const rule = "want a duration with its unit, as 300ms or 5s"
	if !r.scalar(path, n, rule, "!!str") {
		return
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil {
		r.fault(path, n, rule)
		return
	}
	v.SetInt(int64(d))
}

// text reads a scalar by the type's own UnmarshalText.
func (r *reader) text(path string, n *yaml.Node, v encoding.TextUnmarshaler) {
	if !r.scalar(path, n, "want one word or text") {
		return
	}
	err := v.UnmarshalText([]byte(n.Value))
	if err == nil {
		return
	}
	rule := err.Error()
	if inv, ok := errors.AsType[*tierlock.InvalidError](err); ok {
		rule = inv.Rule
	}
	if reflect.TypeOf(v).Elem() == timeType {
		rule = "want a time in RFC 3339, as 2026-11-29T18:00:00Z"
	}
	r.fault(path, n, rule)
}

// number is scalar for a value that has been parsed, with err.
func (r *reader) number(path string, n *yaml.Node, rule string, err error, tags ...string) bool {
	if !r.scalar(path, n, rule, tags...) {
		return false
	}
	if err != nil {
		r.fault(path, n, rule)
	}
	return err == nil
}

// scalar says whether n is a scalar with one of tags; any will do if there are none.
func (r *reader) scalar(path string, n *yaml.Node, rule string, tags ...string) bool {
	if n.Kind == yaml.ScalarNode {
		if len(tags) == 0 {
			return true
		}
		for _, tag := range tags {
			if n.ShortTag() == tag {
				return true
			}
		}
	}
	r.fault(path, n, rule)
	return false
}
