package switchcfg

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// statEvery is how often a file is looked at: far below the poll, and one stat costs
	// about a microsecond.
	statEvery = 200 * time.Millisecond
	// settle is how long a file must have been left alone. An editor that writes in place
	// can be met half way, and a list cut in the middle may still parse.
	settle = 50 * time.Millisecond
)

// File is a Pusher on a file, named by its path. It follows the name, not the file: a
// rename over it, an editor's backup dance and a swapped symbolic link are all changes.
type File string

// Fetch reads the file once nobody has changed it for 50 ms.
func (f File) Fetch(ctx context.Context) ([]byte, error) {
	for {
		text, quiet, err := f.read()
		if err != nil || quiet {
			return text, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s changes all the time: %w", string(f), ctx.Err())
		case <-time.After(settle):
		}
	}
}

// read says also whether the file was quiet before, while and after it was read.
func (f File) read() (text []byte, quiet bool, err error) {
	file, err := os.Open(string(f))
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(file, maxText+1)); err != nil { // one more: Parse says that it is too long
		return nil, false, err
	}
	after, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	age := time.Since(after.ModTime()) // negative when a clock was set back: then only the comparison counts
	return b.Bytes(), same(before, after) && (age < 0 || age >= settle), nil
}

// Watch looks at the file every 200 ms and calls wake when it has become another, has come
// or has gone.
func (f File) Watch(ctx context.Context, wake func()) error {
	tick := time.NewTicker(statEvery)
	defer tick.Stop()
	last, _ := os.Stat(string(f)) // nil while there is none
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if now, _ := os.Stat(string(f)); !same(last, now) {
			last = now
			wake()
		}
	}
}

// same says whether two looks saw one unchanged file, or both none.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
