package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runner runs tests of the tree at root.
type runner struct {
	root  string
	limit time.Duration // of the tests of one mutant
}

// sound runs what the mutants' tests say of the tree as it is: a test that fails anyway
// would catch everything. Together they may take what each of them may.
func (r *runner) sound(ctx context.Context, chosen []mutant) error {
	runs := map[string][]string{}
	for _, m := range chosen {
		runs[m.pkg] = append(runs[m.pkg], m.run)
	}
	for _, pkg := range slices.Sorted(maps.Keys(runs)) {
		out, err := r.test(ctx, pkg, strings.Join(runs[pkg], "|"), r.limit*time.Duration(len(runs[pkg])), nil)
		if err != nil {
			return err
		}
		if got, by := judge(out); got != survived {
			return fmt.Errorf("%s is not sound as it is: %s (%s)\n%s", pkg, got, by, text(out))
		}
	}
	return nil
}

// try runs the tests of one mutant, and names those that failed.
func (r *runner) try(ctx context.Context, m mutant) (got result, by string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(r.root, m.file)
	changed, err := m.apply(r.root)
	if err != nil {
		return "", "", err
	}
	instead := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(instead, changed, 0o600); err != nil {
		return "", "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: instead}})
	if err != nil {
		return "", "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", "", err
	}
	out, err := r.test(ctx, m.pkg, m.run, r.limit, []string{"-overlay", list})
	if err != nil {
		return "", "", err
	}
	got, by = judge(out)
	return got, by, nil
}

// apply is the mutant's file with its text in place.
func (m mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%q: its text stands %d times in %s, want once:\n%s", m.what, n, m.file, m.old)
	}
	return bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}

// test runs tests with the race detector, for limit at most, and returns what go test told as
// JSON. Tests that fail are no error.
func (r *runner) test(ctx context.Context, pkg, run string, limit time.Duration, flags []string) ([]byte, error) {
	dir, pkg := r.module(pkg)
	args := append([]string{"test", "-json", "-race", "-count=1", "-timeout", limit.String(), "-run", "^(" + run + ")$"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && out.Len() == 0 {
		return nil, fmt.Errorf("go test %s: %w\n%s", pkg, err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// module is where the tests of a folder are run, and what they are called there: test/ is a
// module of its own.
func (r *runner) module(pkg string) (dir, name string) {
	if below, ok := strings.CutPrefix(pkg, "test/"); ok {
		return filepath.Join(r.root, "test"), "./" + below
	}
	return r.root, "./" + pkg
}
