package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

type pkg struct {
	ImportPath string
	Imports    []string
	Doc        string
}

// packages lists what ships: every package of the module, with the imports of its
// non-test files.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Doc", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsPointDownOnly(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		may, ok := rule(from)
		if !ok {
			t.Errorf("%s has no line in allowed: say what it may import", from)
			continue
		}
		for _, imp := range p.Imports {
			to, own := strings.CutPrefix(imp, module+"/")
			if own && !slices.Contains(may, to) && !slices.Contains(may, "*") {
				t.Errorf("%s must not import %s", from, to)
			}
		}
	}
}

func TestEachLibraryHasOneHome(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			if !strings.Contains(strings.Split(imp, "/")[0], ".") || strings.HasPrefix(imp, module) {
				continue
			}
			if home := homeOf(imp); !slices.Contains(home, from) {
				t.Errorf("%s must not import %s: its home is %v", from, imp, home)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.Doc) < 40 {
			t.Errorf("%s: package comment %q says too little", p.ImportPath, p.Doc)
		}
	}
}

func rule(from string) ([]string, bool) {
	if may, ok := allowed[from]; ok {
		return may, true
	}
	may, ok := allowed[path.Dir(from)+"/*"]
	return may, ok
}

func homeOf(imp string) []string {
	for lib, home := range homes {
		if imp == lib || strings.HasPrefix(imp, lib+"/") {
			return home
		}
	}
	return nil
}
