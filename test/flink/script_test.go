package flink

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/internal/servers"
)

// The script gets every word it asks for, and finds the classes and tables it names.
func TestTheScriptIsWhole(t *testing.T) {
	servers.Need(t, "JDK")
	classes := compilePure(t)
	check := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "java", slices.Concat([]string{"-cp", classes, "tierlock.flink.Check", "script", script}, args)...).CombinedOutput()
		return string(out), err
	}
	out, err := check("--brokers", "a:1,b:2", "--from", "2026-11-29T10:00:00Z", "--to", "2026-11-29T11:00:00+00:00", "--ignore", "local,bypass",
		"--output", "kafka:it's", "--property", "security.protocol=SASL_SSL")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	statements := strings.Split(strings.TrimSuffix(strings.TrimSpace(out), "\n----"), "\n----\n")
	if last := statements[len(statements)-1]; strings.Contains(out, "${") || !strings.HasPrefix(last, "INSERT INTO findings") {
		t.Errorf("the last statement is %q", last)
	}
	for _, want := range []string{
		"'properties.bootstrap.servers' = 'a:1,b:2'", "tier NOT IN ('local', 'bypass')", "'topic' = 'it''s'", "'properties.security.protocol' = 'SASL_SSL'",
		"f.from_us < CAST(1795950000000000 AS BIGINT)", "f.to_us >= CAST(1795946400000000 AS BIGINT)", "CAST(500000 AS BIGINT)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in the script", want)
		}
	}
	named := regexp.MustCompile(`AS 'tierlock\.flink\.(\w+)'`).FindAllStringSubmatch(out, -1)
	if len(named) == 0 {
		t.Error("the script names no function")
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(source, m[1]+".java")); err != nil {
			t.Error(err)
		}
	}
	readme, err := os.ReadFile("../../deploy/flink/README.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "word" && !strings.Contains(string(readme), "`"+m[1]+"`") {
			t.Errorf("README.md does not tell of ${%s}", m[1])
		}
	}

	out, err = check("--from", "yesterday", "--group", "1", "--ignore", "fake", "--output", "jdbc:x", "--idle", "0s", "--what", "x")
	if err == nil {
		t.Error("taken")
	}
	for _, want := range []string{`brokers: ""`, `from: "yesterday"`, `group: "1"`, `ignore: "fake"`, `output: "jdbc:x"`, `idle: "0s"`, `option: "--what"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the faults do not tell of %s:\n%s", want, out)
		}
	}
}
