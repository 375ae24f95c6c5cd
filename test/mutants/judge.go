package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// result is what came of a mutant.
type result string

const (
	caught   result = "caught"   // a test failed by what it asserts
	survived result = "SURVIVED" // its tests pass
	leftOut  result = "LEFT OUT" // one of its tests did not run, and none failed
	unbuilt  result = "UNBUILT"
	hung     result = "HUNG"
	panicked result = "PANICKED"
)

// event is one line of go test -json.
type event struct{ Action, Test, Output string }

// assertion is what a test prints of itself.
var assertion = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

// bubbleLeft is what testing/synctest says of a test that ended while its goroutines wait,
// which it does when it gives up.
const bubbleLeft = "deadlock: main bubble goroutine has exited"

// judge reads what go test told of one package; by are the tests that failed, or why it says
// nothing.
func judge(out []byte) (got result, by string) {
	var failed, skipped []string
	var said string // the test that an assertion last spoke of
	passed := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		top := e.Test != "" && !strings.Contains(e.Test, "/")
		switch {
		case e.Action == "build-fail", strings.Contains(e.Output, "[build failed]"), strings.Contains(e.Output, "[setup failed]"):
			return unbuilt, "no test of it ran"
		case said != "" && strings.HasPrefix(e.Output, "panic: "+bubbleLeft):
			return caught, said // it gave up in the middle, and left its bubble as it was
		case strings.HasPrefix(e.Output, "panic: test timed out"):
			return hung, "in " + e.Test
		case strings.HasPrefix(e.Output, "panic: "), strings.HasPrefix(e.Output, "fatal error: "):
			return panicked, strings.TrimSpace(e.Output)
		case assertion.MatchString(e.Output):
			said = e.Test
		case top && e.Action == "fail":
			failed = append(failed, e.Test)
		case top && e.Action == "pass":
			passed++
		case top && e.Action == "skip":
			skipped = append(skipped, e.Test)
		}
	}
	switch {
	case len(failed) > 0:
		return caught, strings.Join(failed, ", ")
	case len(skipped) > 0:
		return leftOut, strings.Join(skipped, ", ")
	case passed == 0:
		return leftOut, "no test has that name"
	}
	return survived, "all its tests pass"
}

// text is what go test would have printed.
func text(out []byte) string {
	var b strings.Builder
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			b.WriteString(e.Output)
		}
	}
	return b.String()
}
