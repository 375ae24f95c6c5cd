package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

const top = "../.." // of the tests' own folder

// TestEveryTextStandsOnce keeps the table from rotting: code that is rewritten takes its
// mutants along.
func TestEveryTextStandsOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range table() {
		if _, err := m.apply(top); err != nil {
			t.Error(err)
		}
		if m.old == m.new {
			t.Errorf("%q changes nothing", m.what)
		}
		if key := m.file + "\n" + m.new + "\n" + m.run; seen[key] {
			t.Errorf("%q stands twice", m.what)
		} else {
			seen[key] = true
		}
	}
	if n := len(seen); n < 25 {
		t.Errorf("%d mutants", n)
	}
}

// TestEveryMutantHasItsTests finds a test for every name that the table gives.
func TestEveryMutantHasItsTests(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	tests := map[string][]string{}
	for _, m := range table() {
		if tests[m.pkg] != nil {
			continue
		}
		files, err := filepath.Glob(filepath.Join(top, m.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
				tests[m.pkg] = append(tests[m.pkg], found[1])
			}
		}
	}
	for _, m := range table() {
		for _, name := range regexp.MustCompile(`\|`).Split(m.run, -1) {
			whole := regexp.MustCompile("^(" + name + ")$")
			found := false
			for _, test := range tests[m.pkg] {
				found = found || whole.MatchString(test)
			}
			if !found {
				t.Errorf("%q: %s has no test %s", m.what, m.pkg, name)
			}
		}
	}
}
