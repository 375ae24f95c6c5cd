//go:build linux

package spool_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tierlock/tierlock/audit/spool"
)

// What one large batch is made of: the kernel needs milliseconds to copy it.
const (
	largeRecords = 256
	largeRecord  = 64 << 10
)

// appendLarge puts one small record down, and then a large batch. It prints what was
// acknowledged.
func appendLarge(dir string) error {
	s, err := spool.Open(spool.Config{Dir: dir})
	if err != nil {
		return err
	}
	if _, err := s.Append(context.Background(), []byte("small"), spool.Ordinary); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "small")
	var recs [][]byte
	for i := range largeRecords {
		recs = append(recs, bytes.Repeat([]byte{byte('a' + i%26)}, largeRecord))
	}
	if _, err := s.AppendAll(context.Background(), recs, spool.Ordinary); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "large")
	return s.Close()
}

// A process that is killed inside a write leaves a part of it: the kernel looks for a kill
// between two pages. What it leaves are whole records for the most part, with their checksums,
// and only the commit frame tells that their batch is not: nothing of it may be there after.
// Nobody was told of them, so a test that looks for what was acknowledged cannot miss it.
func TestABatchThatAKillTearsIsNotThereAtAll(t *testing.T) {
	t.Parallel()
	const tries = 20
	for range tries {
		dir := t.TempDir()
		told := killInsideTheWrite(t, dir)
		s, err := spool.Open(spool.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		found, torn := readAll(t, s, 1), s.Former().Torn
		s.Close()
		small, large := bytes.Contains(told, []byte("small")), bytes.Contains(told, []byte("large"))
		if n := len(found); n > 1 && n != 1+largeRecords || small && n < 1 || large && n < 1+largeRecords {
			t.Fatalf("%d records, %d bytes torn, after the process had told %q: want all of a batch or nothing", n, torn, told)
		}
		if len(found) == 1 && torn > largeRecord+1<<10 { // a whole record of it at least
			return
		}
	}
	t.Errorf("no kill in %d has torn the batch", tries)
}

// killInsideTheWrite lets a child append the large batch and kills it when the file has
// begun to grow. It returns what the child has told.
func killInsideTheWrite(t *testing.T, dir string) (told []byte) {
	t.Helper()
	cmd := child(t, "large", dir)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed
	}()
	for {
		select {
		case <-ended:
			return out.Bytes()
		default:
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if st, err := os.Stat(name); err == nil && st.Size() > 2*largeRecord {
				_ = cmd.Process.Kill()
				<-ended
				return out.Bytes()
			}
		}
	}
}
