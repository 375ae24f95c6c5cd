package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// soakRun is one command of make soak: which tests of which packages it runs.
type soakRun struct {
	module string
	run    *regexp.Regexp
	under  []string // folders of the module; "..." for all
}

func (r soakRun) covers(module, folder, test string) bool {
	if r.module != module || !r.run.MatchString(test) {
		return false
	}
	for _, u := range r.under {
		if u == "..." || u == folder {
			return true
		}
	}
	return false
}

// soakRuns reads the recipe of make soak.
func soakRuns(t *testing.T) (all []soakRun) {
	t.Helper()
	_, recipe, _ := strings.Cut(read(t, "Makefile"), "\nsoak:")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	recipe = strings.ReplaceAll(recipe, "$(PKGS)", "./...")
	for _, line := range strings.Split(recipe, "\n")[1:] {
		r := soakRun{module: ".", run: regexp.MustCompile("")}
		if m := regexp.MustCompile(`\tcd (\w+) && `).FindStringSubmatch(line); m != nil {
			r.module = m[1]
		}
		if m := regexp.MustCompile(` -run '?([^' ]+)'?`).FindStringSubmatch(line); m != nil {
			r.run = regexp.MustCompile(m[1])
		}
		for _, m := range regexp.MustCompile(` \./(\S+)`).FindAllStringSubmatch(line, -1) {
			r.under = append(r.under, m[1])
		}
		if !strings.Contains(line, "TIERLOCK_SOAK=1") || len(r.under) == 0 {
			t.Fatalf("no soak: %s", line)
		}
		all = append(all, r)
	}
	if len(all) < 2 {
		t.Fatalf("%d commands in make soak", len(all))
	}
	return all
}

// testFolders are the folders with tests, by module and path in it.
func testFolders(t *testing.T) map[[2]string][]*ast.File {
	t.Helper()
	all := map[[2]string][]*ast.File{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(p))
		at := [2]string{".", filepath.ToSlash(rel)}
		for _, module := range []string{"test", "bench"} {
			if rest, ok := strings.CutPrefix(at[1]+"/", module+"/"); ok {
				at = [2]string{module, strings.TrimSuffix(rest, "/")}
			}
		}
		all[at] = append(all[at], f)
		return err
	})
	if err != nil || len(all) < 30 {
		t.Fatalf("%d folders with tests, %v", len(all), err)
	}
	return all
}

// asking are the functions in files that read TIERLOCK_SOAK, themselves or through others
// of their folder.
func asking(files []*ast.File) map[string]bool {
	uses, asks := map[string]map[string]bool{}, map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := fn.Name.Name
			if uses[name] == nil {
				uses[name] = map[string]bool{}
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					uses[name][n.Name] = true
				case *ast.BasicLit:
					if n.Value == `"TIERLOCK_SOAK"` {
						asks[name] = true
					}
				}
				return true
			})
		}
	}
	for grew := true; grew; {
		grew = false
		for name, used := range uses {
			for other := range used {
				if asks[other] && !asks[name] {
					asks[name], grew = true, true
				}
			}
		}
	}
	return asks
}

// TestMakeSoakRunsEveryTestThatIsLongerThere: a test whose long version no command starts
// was never run.
func TestMakeSoakRunsEveryTestThatIsLongerThere(t *testing.T) {
	runs, soaks := soakRuns(t), 0
	for at, files := range testFolders(t) {
		for name := range asking(files) {
			if !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			soaks++
			found := false
			for _, r := range runs {
				found = found || r.covers(at[0], at[1], name)
			}
			if !found {
				t.Errorf("%s in %s/%s reads TIERLOCK_SOAK, and make soak does not run it: name it TestSoak…", name, at[0], at[1])
			}
		}
	}
	if soaks < 20 {
		t.Errorf("only %d tests read TIERLOCK_SOAK", soaks)
	}
}

// TestWhatIsSkippedIsListed: scripts/test.sh tells what was left out by these words.
func TestWhatIsSkippedIsListed(t *testing.T) {
	for at, files := range testFolders(t) {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Skip" && sel.Sel.Name != "Skipf" {
					return true
				}
				if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err != nil || !strings.HasPrefix(text, "left out: ") {
						t.Errorf("%s/%s: Skip(%s) does not begin with \"left out: \"", at[0], at[1], lit.Value)
					}
				}
				return true
			})
		}
	}
}
