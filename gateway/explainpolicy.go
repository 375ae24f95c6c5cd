package gateway

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// words is every field of the policy by its name in files, with its value as a file writes
// it; what the policy's class has no use for is left out.
func (p Policy) words() map[string]string {
	all := map[string]string{}
	fileWords(all, "", reflect.ValueOf(p))
	return all
}

func fileWords(into map[string]string, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		f := v.Field(i)
		text, isWord := f.Interface().(encoding.TextMarshaler)
		switch {
		case strings.Contains(options, "inline"):
			fileWords(into, prefix, f)
		case strings.Contains(options, "omitempty") && f.IsZero():
		case isWord:
			if b, err := text.MarshalText(); err == nil && len(b) > 0 {
				into[prefix+name] = string(b)
			}
		case f.Kind() == reflect.Struct:
			fileWords(into, prefix+name+".", f)
		default:
			into[prefix+name] = fmt.Sprint(f.Interface())
		}
	}
}
