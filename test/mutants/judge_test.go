package main

import (
	"strings"
	"testing"
)

// TestOnlyAnAssertionCatches: a mutant that does not build, hangs or panics has shown nothing.
func TestOnlyAnAssertionCatches(t *testing.T) {
	for _, c := range []struct {
		name, out string
		want      result
		by        string
	}{
		{"a test fails", `{"Action":"pass","Test":"TestA"}
{"Action":"output","Test":"TestB/case","Output":"        b_test.go:9: got 1, want 2\n"}
{"Action":"fail","Test":"TestB/case"}
{"Action":"fail","Test":"TestB"}
{"Action":"fail"}`, caught, "TestB"},
		{"a server does not start", `{"Action":"output","Test":"TestA","Output":"    nacos.go:40: it does not answer\n"}
{"Action":"fail","Test":"TestA"}`, unsaid, "TestA"},
		{"a race", `{"Action":"output","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Test":"TestA","Output":"    testing.go:1617: race detected during execution of test\n"}
{"Action":"fail","Test":"TestA"}`, unsaid, "TestA"},
		{"one says it of itself, another fails", `{"Action":"output","Test":"TestA","Output":"    a_test.go:9: a log line\n"}
{"Action":"pass","Test":"TestA"}
{"Action":"fail","Test":"TestB"}`, unsaid, "TestB"},
		{"a line over the limit of a scanner", `{"Action":"output","Test":"TestA","Output":"` + strings.Repeat("x", 100<<10) + `\n"}
{"Action":"output","Test":"TestA","Output":"    a_test.go:9: got 1, want 2\n"}
{"Action":"fail","Test":"TestA"}`, caught, "TestA"},
		{"a line over every limit", `{"Action":"pass","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"` + strings.Repeat("x", longest) + `\n"}`, unreadable, "bufio.Scanner: token too long"},
		{"all pass", `{"Action":"pass","Test":"TestA"}
{"Action":"pass"}`, survived, "all its tests pass"},
		{"none ran", `{"Action":"output","Output":"testing: warning: no tests to run\n"}
{"Action":"pass"}`, leftOut, "no test has that name"},
		{"one was left out", `{"Action":"pass","Test":"TestA"}
{"Action":"skip","Test":"TestB"}
{"Action":"pass"}`, leftOut, "TestB"},
		{"no build", `{"ImportPath":"x","Action":"build-output","Output":"x.go:1: undefined: y\n"}
{"ImportPath":"x","Action":"build-fail"}
{"Action":"fail","FailedBuild":"x"}`, unbuilt, "no test of it ran"},
		{"it hangs", `{"Action":"output","Test":"TestA","Output":"panic: test timed out after 3m0s\n"}
{"Action":"fail","Test":"TestA"}`, hung, "in TestA"},
		{"it panics", `{"Action":"output","Test":"TestA","Output":"panic: deadlock: all goroutines in bubble are blocked\n"}
{"Action":"fail","Test":"TestA"}`, panicked, "panic: deadlock: all goroutines in bubble are blocked"},
		{"it gives up inside a bubble", `{"Action":"output","Test":"TestA","Output":"    a_test.go:9: got 1, want 2\n"}
{"Action":"output","Test":"TestA","Output":"panic: deadlock: main bubble goroutine has exited but blocked goroutines remain\n"}
{"Action":"fail","Test":"TestA"}`, caught, "TestA"},
		{"only the leak check fails", `{"Action":"pass","Test":"TestA"}
{"Action":"fail"}`, survived, "all its tests pass"},
	} {
		if got, by := judge([]byte(c.out)); got != c.want || by != c.by {
			t.Errorf("%s: %s by %q, want %s by %q", c.name, got, by, c.want, c.by)
		}
	}
}
