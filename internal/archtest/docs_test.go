package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pages are all Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != root {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(p, ".md") {
			rel, _ := filepath.Rel(root, p)
			out = append(out, rel)
		}
		return err
	})
	if err != nil || len(out) < 5 {
		t.Fatalf("%d pages, %v", len(out), err)
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

func TestMakeTargetsInPagesExist(t *testing.T) {
	makefile := read(t, "Makefile")
	named := regexp.MustCompile("(?m)(?:^|`)make ([a-z]+)")
	for _, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s names make %s", page, m[1])
			}
		}
	}
}

func TestArchitectureIsShort(t *testing.T) {
	if n := strings.Count(read(t, "ARCHITECTURE.md"), "\n"); n >= 250 {
		t.Errorf("%d lines: it is a map, keep it under 250", n)
	}
}

func TestBothReadmesHaveTheSameShape(t *testing.T) {
	shape := func(name string) (s []int) {
		text := read(t, name)
		for _, mark := range []string{"\n## ", "\n```", "\n|"} {
			s = append(s, strings.Count(text, mark))
		}
		return s
	}
	if en, zh := shape("README.md"), shape("README.zh-CN.md"); !slices.Equal(en, zh) {
		t.Errorf("sections, fences, table rows: README.md %v, README.zh-CN.md %v", en, zh)
	}
}

// TestNamesInPagesExist looks up every `pkg.Name` and `pkg.Type.Name` that README and
// ARCHITECTURE.md put in backticks, where pkg is one of ours.
func TestNamesInPagesExist(t *testing.T) {
	decls := declared(t)
	named := regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?")
	for _, page := range []string{"README.md", "README.zh-CN.md", "ARCHITECTURE.md", "docs/guarantees.md"} {
		seen := 0
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			names, ours := decls[m[1]]
			if !ours {
				continue
			}
			seen++
			if !names[m[2]] || m[3] != "" && !names[m[2]+"."+m[3]] {
				t.Errorf("%s names %s.%s %s, which is gone", page, m[1], m[2], m[3])
			}
		}
		if seen == 0 {
			t.Errorf("%s names nothing of ours: the test looks in the wrong place", page)
		}
	}
}

// declared maps package name to its exported names, methods and fields as Type.Name.
func declared(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for _, dir := range []string{".", "gateway", "gateway/gatewaytest", "degrade", "breaker", "localfallback", "audit", "switchcfg", "reconcile", "guard", "guard/guardtest", "metrics", "backend/redisstore", "backend/backendtest"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if out[file.Name.Name] == nil {
				out[file.Name.Name] = map[string]bool{}
			}
			collect(file, out[file.Name.Name])
		}
	}
	return out
}

func collect(file *ast.File, into map[string]bool) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			into[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				collectSpec(s, into)
			}
		}
	}
}

func collectSpec(s ast.Spec, into map[string]bool) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			into[n.Name] = true
		}
	case *ast.TypeSpec:
		into[s.Name.Name] = true
		var fields *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				into[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if idx, ok := e.(*ast.IndexExpr); ok {
		e = idx.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return "?"
}

func TestNothingOfTheMachineIsInTheTree(t *testing.T) {
	bad := regexp.MustCompile(`(^|[^a-zA-Z0-9_.\-])/(work|farm|root)/|GOPROXY=|--index-url|--registry[= ]`)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == ".git" || name == "bin" || name == "build" {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(p) {
		case ".go", ".md", ".sh", ".yml", ".yaml", ".json", ".lua", "":
		default:
			return nil
		}
		b, err := os.ReadFile(p)
		if err == nil && filepath.Base(p) != "docs_test.go" && bad.Match(b) {
			t.Errorf("%s: holds a machine's path or a registry's setting", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
