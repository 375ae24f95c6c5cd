package servers

import (
	"os"
	"path/filepath"
	"testing"
)

// What scripts/servers.sh installs beside the system's packages, by version.
const (
	kafkaVersion  = "4.3.1"
	rnacosVersion = "0.8.8"
)

// cache is the folder of what is fetched or made once per machine: $XDG_CACHE_HOME/tierlock.
func cache(tb testing.TB, path ...string) string {
	tb.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		tb.Fatalf("cache folder: %v", err)
	}
	return filepath.Join(append([]string{dir, "tierlock"}, path...)...)
}

// keep copies from into the cache under a name, unless that is there. Test processes may
// do so at once: the copy gets its name when it is whole, and the first one stays.
func keep(from, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.CopyFS(tmp, os.DirFS(from)); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil && !exists(name) {
		return err
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
