package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tierlock/tierlock/internal/servers"
)

func functionsIn(t *testing.T) func(Process, []string) int {
	return func(p Process, args []string) int { return p.Functions(t.Context(), args) }
}

func TestExitCodesOfFunctions(t *testing.T) {
	two := write(t, strings.NewReplacer("stores:", "stores:\n  other: {kind: redis, addrs: [\"127.0.0.1:6380\"]}", "class:", "store: main, class:").Replace(example))
	for name, c := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"nothing":              {nil, ExitUsage, "", "want ls, load or rm"},
		"help":                 {[]string{"--help"}, ExitOK, "", "usage: tierlock functions ls|load|rm"},
		"help of one":          {[]string{"load", "-h"}, ExitOK, "", "usage: tierlock functions ls|load|rm"},
		"another word":         {[]string{"purge", "--redis", "127.0.0.1:1"}, ExitUsage, "", `want ls, load or rm, got "purge"`},
		"no server":            {[]string{"ls"}, ExitUsage, "", "want --redis or -c"},
		"two sources":          {[]string{"ls", "--redis", "127.0.0.1:1", "-c", two}, ExitUsage, "", "want --redis or -c"},
		"no port":              {[]string{"ls", "--redis", "localhost"}, ExitUsage, "", "want host:port"},
		"two topologies":       {[]string{"ls", "--redis", "127.0.0.1:1", "--cluster", "--sentinel", "main"}, ExitUsage, "", "cluster"},
		"a store of two":       {[]string{"ls", "-c", two}, ExitUsage, "", "--store: want one of main, other"},
		"no password":          {[]string{"ls", "--redis", "127.0.0.1:1", "--password-env", "NOSUCH_VARIABLE"}, ExitUsage, "", "the variable is not set"},
		"no server, as JSON":   {[]string{"ls", "--output", "json"}, ExitUsage, `{"error":"invalid","faults":[{"field":"--redis","rule":"want --redis or -c"}]}`, ""},
		"nobody there":         {[]string{"ls", "--redis", nobody(t)}, ExitError, "", "connection refused"},
		"nobody there either":  {[]string{"load", "--redis", nobody(t)}, ExitError, "", "connection refused"},
		"nobody there as JSON": {[]string{"ls", "--redis", nobody(t), "--output", "json"}, ExitError, `"error":"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := command(t, functionsIn(t), c.args...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("code %d\nstdout %s\nstderr %s", code, stdout, stderr)
			}
		})
	}
}

func TestFunctionsAreLoadedListedAndRemoved(t *testing.T) {
	server := servers.Redis(t)
	run := func(args ...string) (stdout string) {
		t.Helper()
		code, stdout, stderr := command(t, functionsIn(t), append(args, "--redis", server.Addr())...)
		if code != ExitOK || stderr != "" {
			t.Fatalf("%v: code %d, %s%s", args, code, stdout, stderr)
		}
		return stdout
	}
	if got := run("ls"); got != fmt.Sprintf("%-21s none\n", server.Addr()) {
		t.Errorf("ls at first: %q", got)
	}
	loaded := run("load")
	if !strings.Contains(loaded, ", current\n  tierlock_acquire_") {
		t.Errorf("load: %q", loaded)
	}
	if again := run("load"); again != loaded {
		t.Errorf("load again: %q", again)
	}
	var says struct {
		Library string
		Version int
		Masters []struct {
			Addr      string
			Version   int
			Current   bool
			Functions []string
		}
	}
	text := run("ls", "--output", "json")
	if err := json.Unmarshal([]byte(text), &says); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if says.Library != "tierlock" || len(says.Masters) != 1 || !says.Masters[0].Current || says.Masters[0].Version != says.Version || len(says.Masters[0].Functions) < 4 {
		t.Errorf("ls: %s", text)
	}
	run("rm")
	if got := run("ls", "--output", "json"); !strings.Contains(got, `"version":0,"current":false,"functions":[]`) {
		t.Errorf("ls after rm: %s", got)
	}
}

func TestFunctionsGoToEveryMasterOfACluster(t *testing.T) {
	t.Parallel()
	c := servers.Cluster(t, 3, 0)
	code, stdout, stderr := command(t, functionsIn(t), "load", "--redis", c.Addrs()[0], "--cluster")
	if code != ExitOK || stderr != "" || strings.Count(stdout, ", current") != 3 {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}
