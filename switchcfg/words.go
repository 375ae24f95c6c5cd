package switchcfg

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// Words tells the fields of a struct by the names that Decode reads them by (local.permits),
// each with its value as a file writes it. Fields that are omitted when empty, and those
// whose value has no word, are left out. It is for showing and recording a configuration,
// lists and maps in it are not written to be read back.
func Words(v any) map[string]string {
	all := map[string]string{}
	words(all, "", reflect.Indirect(reflect.ValueOf(v)))
	return all
}

func words(into map[string]string, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		f := v.Field(i)
		text, isWord := f.Interface().(encoding.TextMarshaler)
		switch {
		case strings.Contains(options, "inline"):
			words(into, prefix, f)
		case strings.Contains(options, "omitempty") && f.IsZero():
		case isWord:
			if b, err := text.MarshalText(); err == nil && len(b) > 0 {
				into[prefix+name] = string(b)
			}
		case f.Kind() == reflect.Struct:
			words(into, prefix+name+".", f)
		default:
			into[prefix+name] = fmt.Sprint(f.Interface())
		}
	}
}
