package spool_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/tierlock/tierlock/audit/spool"
)

func TestOSLetsNobodyElseReadTheFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "var", "spool")
	s := open(t, spool.Config{Dir: dir})
	if _, err := s.Append(context.Background(), []byte("who bought what"), spool.Ordinary); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		seen++
		return nil
	})
	if err != nil || seen < 5 { // two folders, a segment, the reserve, the lock
		t.Errorf("%d names seen, %v", seen, err)
	}
}
