package spool_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierlock/tierlock/audit/spool"
)

// childEnv makes the test binary a writer: it appends to the folder until it is killed
// and prints every seq that was acknowledged.
const childEnv = "TIERLOCK_SPOOL_CHILD"

func childMain() bool {
	dir := os.Getenv(childEnv)
	if dir == "" {
		return false
	}
	s, err := spool.Open(spool.Config{Dir: dir, Segment: 64 << 10, Quota: 1 << 30, Reserve: 64 << 10})
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	var mu sync.Mutex
	for g := range 8 {
		go func() {
			for i := 0; ; i++ {
				rec := fmt.Sprintf("%d/%d/%s", g, i, strings.Repeat("y", g*50))
				seq, err := s.Append(context.Background(), []byte(rec), spool.Ordinary)
				if err != nil {
					continue
				}
				mu.Lock()
				_, _ = io.WriteString(os.Stdout, strconv.FormatUint(seq, 10)+" "+rec+"\n")
				mu.Unlock()
			}
		}()
	}
	select {}
}

// What was written outlives the process in the page cache, so a kill misses no fsync: the power
// loss does, and the trace of system calls. Nor does it miss what keeps a torn batch out, since
// nobody was told of it: TestABatchThatAKillTearsIsNotThereAtAll does.
func TestSoakNothingAcknowledgedIsLostWhenTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[uint64]string{}
	for round := range rounds(4, 300) {
		killOnce(t, dir, acked, 5+rand.IntN(400))
		s, err := spool.Open(spool.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		found := map[uint64]string{}
		for _, rec := range readAll(t, s, 1) {
			if rec.Lost != 0 {
				t.Errorf("round %d: %d to %d damaged", round, rec.Lost, rec.Seq)
			}
			found[rec.Seq] = string(rec.Data)
		}
		s.Close()
		for seq, rec := range acked {
			if found[seq] != rec {
				t.Fatalf("round %d: acknowledged %d was %q, is %q", round, seq, rec, found[seq])
			}
		}
	}
	if len(acked) < 100 {
		t.Errorf("only %d records", len(acked))
	}
}

// killOnce starts the writer, kills it after so many acknowledgements, and notes them all.
func killOnce(t *testing.T, dir string, acked map[uint64]string, after int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil { // a line that was cut was not told
			break
		}
		seq, rec, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		v, err := strconv.ParseUint(seq, 10, 64)
		if err != nil {
			t.Fatalf("the writer says %q", line)
		}
		acked[v] = rec
		if n == after {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait() // killed
}
