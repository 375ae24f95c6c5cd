package api

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/audit"
)

// businessFields are those of business, in the words of the events that carry it.
var businessFields = []string{"type", "id", "op", "delta", "before", "after"}

// business reads what the work is, as strictly as the body around it. The gateway checks
// how long its words are.
func business(f field) (*audit.Business, error) {
	members, err := splitObject(f.value)
	if err != nil {
		return nil, tierlock.Invalid(f.name, clip(string(f.value)), "want an object with "+strings.Join(businessFields, ", "))
	}
	b := new(audit.Business)
	var errs []error
	var seen []string
	for _, m := range members {
		at := field{f.name + "." + clip(m.name), m.value}
		switch {
		case !slices.Contains(businessFields, m.name):
			errs = append(errs, tierlock.Invalid(at.name, "", "is not a field of business; want "+strings.Join(businessFields, ", ")))
			continue
		case slices.Contains(seen, m.name):
			errs = append(errs, tierlock.Invalid(at.name, "", "is given twice"))
			continue
		}
		seen = append(seen, m.name)
		errs = append(errs, setBusiness(b, m.name, at))
	}
	for _, name := range businessFields[:2] { // a hook is found by the one and looks up the other
		if !slices.Contains(seen, name) {
			errs = append(errs, tierlock.Invalid(f.name+"."+name, "", "is missing"))
		}
	}
	return b, errors.Join(errs...)
}

// setBusiness puts one member into b; at is the member under its whole path.
func setBusiness(b *audit.Business, name string, at field) (err error) {
	switch name {
	case "type":
		b.Type, err = text(at)
	case "id":
		b.ID, err = text(at)
	case "op":
		b.Op, err = text(at)
	case "delta":
		b.Delta, err = number[int64](at, -maxNumber, maxNumber)
	case "before":
		b.Before, err = numberAt(at)
	case "after":
		b.After, err = numberAt(at)
	}
	return err
}

func numberAt(f field) (*int64, error) {
	n, err := number[int64](f, -maxNumber, maxNumber)
	return &n, err
}

// text reads a string that says something.
func text(f field) (s string, err error) {
	if f.value[0] != '"' || json.Unmarshal(f.value, &s) != nil || s == "" {
		return "", tierlock.Invalid(f.name, clip(string(f.value)), "want a string that is not empty")
	}
	return s, nil
}
