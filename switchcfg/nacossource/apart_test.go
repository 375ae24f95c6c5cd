package nacossource

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// apartEnv is set in a process that apart has started.
const apartEnv = "NACOSSOURCE_TEST_APART"

// apart runs the calling test in a process of its own, so that it may wait beside others: the
// SDK allows all clients of a process together 5 questions a second about one configuration.
// It is true where that is done, and false in that process.
func apart(t *testing.T) bool {
	t.Helper()
	return apartIn(t, func() (string, error) { return os.Args[0], nil })
}

// apartUnraced is apart in a binary that is built without the race detector. The SDK reads its
// connection unguarded while it reconnects (its issue 905); the connection is always of one
// type, so that costs it an old answer at most.
func apartUnraced(t *testing.T) bool {
	t.Helper()
	if !raceDetector {
		return apart(t)
	}
	return apartIn(t, unraced)
}

func apartIn(t *testing.T, binary func() (string, error)) bool {
	t.Helper()
	if os.Getenv(apartEnv) != "" {
		return false
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	which := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), path, "-test.run="+which, "-test.count=1", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	out, err := cmd.CombinedOutput()
	switch said := string(out); {
	case err == nil && strings.Contains(said, "--- SKIP: "+t.Name()+" "):
		t.Skip(said)
	case err != nil || !strings.Contains(said, "--- PASS: "+t.Name()+" "):
		t.Errorf("the process ended with %v, and wrote %s", err, said)
	default:
		t.Log(said)
	}
	return true
}

// built is where unraced puts its binary; TestMain removes it.
var built struct {
	sync.Mutex
	dir string
}

// unraced builds the tests without the race detector, once.
var unraced = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nacossource")
	if err != nil {
		return "", err
	}
	built.Lock()
	built.dir = dir
	built.Unlock()
	path := filepath.Join(dir, "unraced.test")
	if out, err := exec.Command("go", "test", "-c", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// tidy removes what unraced has built behind the last test.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	code := m.M.Run()
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	return code
}
