package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/audit"
)

// inSegments is a folder of several segments that a producer closed, none of it sent.
func inSegments(t *testing.T) (dir string, segments []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "spool")
	for range 4 { // every Open begins a segment
		recorded(t, dir, "shop-1", 3)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(segments) != 4 {
		t.Fatalf("%v, %v", segments, err)
	}
	return dir, segments
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.Name(), info.Size(), info.ModTime()))
	}
	return all
}

func firstOf(t *testing.T, segment string) (first uint64) {
	t.Helper()
	name := filepath.Base(segment)
	if _, err := fmt.Sscanf(name[strings.LastIndex(name, "-")+1:], "%d.seg", &first); err != nil {
		t.Fatal(err)
	}
	return first
}

// What is gone from a folder, as a whole file or as the content of one, is damage to
// whoever looks, until Kafka has what comes after it.
func TestSegmentThatIsNotThereIsDamage(t *testing.T) {
	for name, which := range map[string]int{"the first": 0, "one in the middle": 2} {
		t.Run(name, func(t *testing.T) {
			dir, segments := inSegments(t)
			if err := os.Remove(segments[which]); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
				t.Fatal(err)
			}
			from, to := firstOf(t, segments[which]), firstOf(t, segments[which+1])-1
			before := listing(t, dir)
			says := fmt.Sprintf("seq %d to %d lost: no segment has them, nor has Kafka", from, to)
			for _, verb := range []string{"ls", "fsck"} {
				code, stdout, stderr := command(t, spoolIn(t), verb, dir)
				if code != ExitError || !strings.Contains(stdout, says) {
					t.Errorf("%s: code %d\n%s%s", verb, code, stdout, stderr)
				}
			}
			lost := fmt.Sprintf("{\"lost\":{\"from\":%d,\"to\":%d}}\n", from, to)
			if code, stdout, _ := command(t, spoolIn(t), "dump", dir); code != ExitOK || which > 0 && !strings.Contains(stdout, lost) {
				t.Errorf("dump: code %d\n%s", code, stdout)
			}
			if after := listing(t, dir); !slices.Equal(before, after) {
				t.Errorf("changed by looking: %v\n%v", before, after)
			}
			code, stdout, _ := command(t, spoolIn(t), "fsck", "--repair", "--output", "json", dir)
			var got struct{ Spools []checkedSpool }
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != ExitError || len(got.Spools) != 1 || !got.Spools[0].Damaged || len(got.Spools[0].Missing) != 1 {
				t.Errorf("--repair: code %d, %v, %s", code, err, stdout)
			}
		})
	}
}

func TestSegmentThatWasCutIsDamage(t *testing.T) {
	for name, c := range map[string]struct {
		which int
		size  int64
		says  string
	}{
		"the last to nothing":         {3, 0, "cut to 0 bytes, less than its header"},
		"the last within its header":  {3, 100, "cut to 100 bytes, less than its header"},
		"the last within its records": {3, 700, "torn bytes at the end"},
		"a middle one to nothing":     {1, 0, "cut to 0 bytes, less than its header"},
		"a middle one to its header":  {1, 512, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, segments := inSegments(t)
			if err := os.Truncate(segments[c.which], c.size); err != nil {
				t.Fatal(err)
			}
			if code, stdout, _ := command(t, spoolIn(t), "fsck", dir); code != ExitError || !strings.Contains(stdout, c.says) || !strings.Contains(stdout, dir+": damaged") {
				t.Errorf("code %d, %s", code, stdout)
			}
			code, stdout, _ := command(t, spoolIn(t), "fsck", "--repair", dir)
			if mends := c.size != 512; (code == ExitOK) != mends {
				t.Errorf("--repair: code %d, %s", code, stdout)
			}
		})
	}
}

// What stands in front of the cursor is in Kafka, and its segments are removed: no damage.
func TestSegmentsThatWereSentAndRemovedAreNoDamage(t *testing.T) {
	dir, segments := inSegments(t)
	if after, err := audit.Adopt(t.Context(), audit.Config{Dir: dir, Producer: "daemon", Sink: takesAll{}}); err != nil || after.Backlog() != 0 {
		t.Fatalf("%+v, %v", after, err)
	}
	recorded(t, dir, "shop-1", 3)
	for _, gone := range segments[:2] {
		_ = os.Remove(gone) // the log has removed some itself
	}
	for _, verb := range []string{"ls", "fsck"} {
		if code, stdout, stderr := command(t, spoolIn(t), verb, dir); code != ExitOK {
			t.Errorf("%s: code %d\n%s%s", verb, code, stdout, stderr)
		}
	}
}

// A folder that was mended tells what is lost and is content, though its header or a
// record of it is gone for good.
func TestLossThatARepairHasToldIsNoDamage(t *testing.T) {
	dir, segments := inSegments(t)
	content, err := os.ReadFile(segments[1])
	if err != nil {
		t.Fatal(err)
	}
	clear(content[600:])
	if err := os.WriteFile(segments[1], content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"fsck", dir}, ExitError}, {[]string{"fsck", "--repair", dir}, ExitOK}, {[]string{"fsck", dir}, ExitOK}} {
		code, stdout, _ := command(t, spoolIn(t), c.args...)
		if code != c.code || !strings.Contains(stdout, "lost") {
			t.Errorf("%v: code %d, %s", c.args, code, stdout)
		}
	}
	if err := os.Remove(segments[2]); err != nil { // right behind it, which no repair explains
		t.Fatal(err)
	}
	if code, stdout, _ := command(t, spoolIn(t), "fsck", dir); code != ExitError {
		t.Errorf("code %d, %s", code, stdout)
	}
}

// takesAll is a sink that has taken every message.
type takesAll struct{}

func (takesAll) Partitions(context.Context) (int, error) { return 1, nil }

func (takesAll) Send(_ context.Context, msgs []audit.Message) []error {
	return make([]error, len(msgs))
}
