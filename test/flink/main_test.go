// Package flink holds the batch job in deploy/flink against the Go job it stands in for.
package flink

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is where the job's Java lies.
const source = "../../deploy/flink/src/tierlock/flink"

// script is the job itself.
const script = "../../deploy/flink/reconcile.sql"

// pure are the classes that need no Flink: all of the rule is in them.
var pure = []string{"Hold", "Ids", "Rule", "Cause", "Event", "Holds", "Finding", "Groups", "Options", "Script"}

// compile compiles into a folder of the test's and returns it.
func compile(t *testing.T, classpath string, files ...string) string {
	t.Helper()
	javac, err := exec.LookPath("javac")
	if err != nil {
		t.Fatalf("%v: make servers installs it", err)
	}
	dir := t.TempDir()
	args := slices.Concat([]string{"--release", "17", "-Xlint:all,-processing", "-Werror", "-proc:none", "-encoding", "UTF-8", "-d", dir, "-cp", classpath}, files)
	if out, err := exec.CommandContext(t.Context(), javac, args...).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return dir
}

// compilePure compiles what needs no Flink, and the questions of the test to it.
func compilePure(t *testing.T) string {
	t.Helper()
	files := []string{filepath.Join("testdata", "Check.java")}
	for _, name := range pure {
		files = append(files, filepath.Join(source, name+".java"))
	}
	return compile(t, "", files...)
}
