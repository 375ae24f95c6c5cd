package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
)

// result is what came of a mutant.
type result string

const (
	caught     result = "caught"   // a test failed by what it asserts
	survived   result = "SURVIVED" // its tests pass
	leftOut    result = "LEFT OUT" // one of its tests did not run, and none failed
	unsaid     result = "UNSAID"   // a test failed, and none by what it asserts: a server did not start, a race
	unreadable result = "UNREADABLE"
	unbuilt    result = "UNBUILT"
	hung       result = "HUNG"
	panicked   result = "PANICKED"
)

// event is one line of go test -json.
type event struct{ Action, Test, Output string }

// assertion is what a test prints of itself.
var assertion = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

// bubbleLeft is what testing/synctest says of a test that ended while its goroutines wait,
// which it does when it gives up.
const bubbleLeft = "deadlock: main bubble goroutine has exited"

// longest is the longest line of go test that is read.
const longest = 16 << 20

// events are the lines of go test -json; err tells, after the last, that there was more than
// could be read.
func events(out []byte, err *error) iter.Seq[event] {
	return func(yield func(event) bool) {
		lines := bufio.NewScanner(bytes.NewReader(out))
		lines.Buffer(nil, longest)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil && !yield(e) {
				return
			}
		}
		*err = lines.Err()
	}
}

// testOf is the test that a case belongs to.
func testOf(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

// judge reads what go test told of one package; by are the tests that failed, or why it says
// nothing.
func judge(out []byte) (got result, by string) {
	var failed, mute, skipped []string
	var last string           // the test that an assertion last spoke of
	said := map[string]bool{} // the tests that an assertion spoke of
	passed := 0
	var err error
	for e := range events(out, &err) {
		whole := e.Test != "" && e.Test == testOf(e.Test)
		switch {
		case e.Action == "build-fail", strings.Contains(e.Output, "[build failed]"), strings.Contains(e.Output, "[setup failed]"):
			return unbuilt, "no test of it ran"
		case last != "" && strings.HasPrefix(e.Output, "panic: "+bubbleLeft):
			return caught, last // it gave up in the middle, and left its bubble as it was
		case strings.HasPrefix(e.Output, "panic: test timed out"):
			return hung, "in " + e.Test
		case strings.HasPrefix(e.Output, "panic: "), strings.HasPrefix(e.Output, "fatal error: "):
			return panicked, strings.TrimSpace(e.Output)
		case assertion.MatchString(e.Output):
			last, said[testOf(e.Test)] = e.Test, true
		case whole && e.Action == "fail" && !said[e.Test]:
			mute = append(mute, e.Test)
		case whole && e.Action == "fail":
			failed = append(failed, e.Test)
		case whole && e.Action == "pass":
			passed++
		case whole && e.Action == "skip":
			skipped = append(skipped, e.Test)
		}
	}
	switch {
	case err != nil:
		return unreadable, err.Error()
	case len(failed) > 0:
		return caught, strings.Join(failed, ", ")
	case len(mute) > 0:
		return unsaid, strings.Join(mute, ", ")
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
	var err error
	for e := range events(out, &err) {
		b.WriteString(e.Output)
	}
	if err != nil {
		b.WriteString(err.Error())
	}
	return b.String()
}
