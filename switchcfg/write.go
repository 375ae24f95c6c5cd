package switchcfg

import (
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// WriteFile writes d as YAML for a [File] to follow, after d.Check. Readers see the old
// file or the new one, never a part, also after a power cut. Its mode is 0644: services
// of other users follow it, and it holds no secret.
func WriteFile(path string, d Document) error {
	if err := d.Check(time.Now()); err != nil {
		return err
	}
	text, err := yaml.Marshal(d)
	if err != nil {
		return err
	}
	return replaceFile(path, text, 0o644)
}

// replaceFile gives path new content in one step that survives a power cut: the content is
// on disk before it gets the name, and the name before this returns.
func replaceFile(path string, content []byte, mode os.FileMode) (err error) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, "."+base+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(content); err != nil {
		return err
	}
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
