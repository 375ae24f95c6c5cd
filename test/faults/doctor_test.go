package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/internal/daemon"
)

// doctor looks at a store with the daemon's own command, as an operator does, and fails
// unless one of its findings begins so and holds each of the words.
func doctor(t *testing.T, store, begins string, words ...string) {
	t.Helper()
	found := doctorFinds(t, store)
	if !slices.ContainsFunc(found, func(one string) bool {
		for _, word := range words {
			if !strings.Contains(one, word) {
				return false
			}
		}
		return strings.HasPrefix(one, begins)
	}) {
		t.Errorf("doctor says no %q with %q:\n%s", begins, words, strings.Join(found, "\n"))
	}
}

// doctorFinds are the findings about a store, as "grade check: found".
func doctorFinds(t *testing.T, store string) (all []string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tierlock.yaml")
	text := fmt.Sprintf("stores: {main: {kind: redis, %s}}\naudit: {dir: %q}\nchains: {order: {class: strong, protects: \"one sale\", on_lost: fence}}\n", store, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	p := daemon.Process{Stdout: &out, Stderr: &log}
	p.Doctor(t.Context(), []string{"-c", file, "--output", "json"})
	var said struct {
		Checks []struct{ Group, Check, Grade, Found string }
	}
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		t.Fatalf("doctor: %v: %s%s", err, &out, &log)
	}
	for _, c := range said.Checks {
		if c.Group == "store main" {
			all = append(all, c.Grade+" "+c.Check+": "+c.Found)
		}
	}
	return all
}

// at names one server in the daemon's file.
func (s *site) at() string { return fmt.Sprintf("addrs: [%q]", s.server.Addr()) }
