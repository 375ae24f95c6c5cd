// Package embedder builds a service that embeds Tierlock, as its users do.
package embedder

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pinned are the versions an embedder gets by requiring Tierlock. They are part of its
// API: a service that pins one of them must not be moved by an upgrade of ours unawares.
// Change a line here only together with a line in CHANGELOG.md.
var pinned = map[string]string{
	"github.com/redis/go-redis/v9": "v9.23.0",
	"github.com/sony/gobreaker/v2": "v2.4.0",
	"github.com/maypok86/otter/v2": "v2.4.0",
	"go.yaml.in/yaml/v3":           "v3.0.6",
}

// unlinked are what a service that takes no Kafka sink, no Nacos source and no metrics
// must not carry.
var unlinked = []string{
	"github.com/segmentio/kafka-go", "github.com/nacos-group/", "google.golang.org/grpc", "github.com/prometheus/",
	"modernc.org/sqlite", "github.com/alicebob/miniredis", "github.com/twmb/franz-go", "github.com/jackc/pgx",
}

// service lays an embedder's module into a temporary folder.
func service(t *testing.T) func(args ...string) string {
	t.Helper()
	dir := t.TempDir()
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, "testdata/service/main.go.txt", filepath.Join(dir, "main.go"))
	copyFile(t, filepath.Join(repo, "go.sum"), filepath.Join(dir, "go.sum"))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("mod", "init", "example.com/service")
	run("mod", "edit", "-go=1.26.0", "-require=github.com/tierlock/tierlock@v0.0.0", "-replace=github.com/tierlock/tierlock="+repo)
	return run
}

func TestEmbedderGetsThePinnedVersions(t *testing.T) {
	run := service(t)
	run("build", "-o", os.DevNull, ".")
	for path, want := range pinned {
		if got := strings.TrimSpace(run("list", "-m", "-f", "{{.Version}}", path)); got != want {
			t.Errorf("%s: an embedder gets %s, pinned is %s", path, got, want)
		}
	}
}

func TestEmbedderLinksWhatItUsesOnly(t *testing.T) {
	deps := service(t)("list", "-deps", ".")
	for line := range strings.Lines(deps) {
		for _, bad := range unlinked {
			if strings.HasPrefix(line, bad) {
				t.Errorf("the service links %s", strings.TrimSpace(line))
			}
		}
	}
	if !strings.Contains(deps, "github.com/redis/go-redis/v9") {
		t.Error("the service does not even link its own store")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
