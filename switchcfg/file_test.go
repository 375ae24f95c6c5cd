package switchcfg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Each way in which a file becomes another one, as editors, deployments and Kubernetes do.
func TestFileWatchSeesEveryKindOfChange(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(t *testing.T, dir, path string){
		"written in place": func(t *testing.T, _, path string) { write(t, path, "two, longer") },
		"renamed over": func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "new"), "one") // of the same size
			must(t, os.Rename(filepath.Join(dir, "new"), path))
		},
		"backed up and written anew": func(t *testing.T, _, path string) {
			must(t, os.Rename(path, path+"~"))
			write(t, path, "one")
		},
		"removed": func(t *testing.T, _, path string) { must(t, os.Remove(path)) },
		"link swapped": func(t *testing.T, dir, path string) { // a mounted ConfigMap: path -> ..data/name, ..data -> folder
			must(t, os.Symlink("second", filepath.Join(dir, "..new")))
			must(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "switch.yaml")
				if name == "link swapped" {
					for _, version := range []string{"first", "second"} {
						must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
						write(t, filepath.Join(dir, version, "switch.yaml"), "one")
					}
					must(t, os.Symlink("first", filepath.Join(dir, "..data")))
					must(t, os.Symlink("..data/switch.yaml", path))
				} else {
					write(t, path, "one")
				}
				ctx, cancel := context.WithCancel(t.Context())
				var woken atomic.Int32
				done := make(chan error, 1)
				go func() { done <- File(path).Watch(ctx, func() { woken.Add(1) }) }()
				time.Sleep(time.Second)
				synctest.Wait()
				if woken := woken.Load(); woken != 0 {
					t.Errorf("woken %d times by nothing", woken)
				}
				change(t, dir, path)
				time.Sleep(statEvery + 1)
				synctest.Wait()
				if woken := woken.Load(); woken != 1 {
					t.Errorf("woken %d times", woken)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if woken := woken.Load(); woken != 1 {
					t.Errorf("woken %d times by one change", woken)
				}
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("Watch returned %v", err)
				}
			})
		})
	}
}

func TestFileFetchWaitsForWhoIsWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "switch.yaml")
		touch := func() { // the file system does not know the bubble's time
			if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		touch()
		for _, want := range []time.Duration{settle, 0} { // the second time it is quiet already
			begin := time.Now()
			text, err := File(path).Fetch(t.Context())
			if took := time.Since(begin); err != nil || string(text) != "half" || took != want {
				t.Errorf("%q, %v after %v, want %v", text, err, took, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var writing sync.WaitGroup
		touch()
		writing.Go(func() {
			for ctx.Err() == nil {
				touch()
				time.Sleep(settle / 2)
			}
		})
		if _, err := File(path).Fetch(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while it is written: %v", err)
		}
		writing.Wait()
	})
}

func TestFileFetchTellsWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := File(filepath.Join(dir, "none")).Fetch(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := File(dir).Fetch(t.Context()); err == nil {
		t.Error("a folder: no error")
	}
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, []byte(strings.Repeat("#", 3<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := File(huge).Fetch(t.Context())
	if err != nil || len(text) != maxText+1 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := Parse(text); err == nil {
		t.Error("a huge file was parsed")
	}
}

func TestFollowAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "switch.yaml")
	reports := make(chan Report, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Follow(ctx, File(path), FollowConfig{Report: func(r Report) { reports <- r }}, func(Document) error { return nil })
	}()
	inForce := func(version uint64) {
		t.Helper()
		for end := time.After(10 * time.Second); ; {
			select {
			case r := <-reports:
				if r.Version == version && r.Fault == nil {
					return
				}
			case <-end:
				t.Fatalf("version %d not in force after 10 s", version)
			}
		}
	}
	for version := uint64(1); version <= 3; version++ {
		if err := WriteFile(path, Document{Version: version, Chains: map[string]Directive{}}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		inForce(version)
		t.Logf("version %d in force %v after it was written", version, time.Since(begin).Round(time.Millisecond))
	}
	cancel()
	<-done
}
