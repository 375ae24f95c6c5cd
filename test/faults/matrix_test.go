package faults

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const matrixFile = "../../docs/fault-matrix.md"

// What the last cell of a row may say.
const (
	pass   = "pass"
	fail   = "fail"
	notRun = "not run"
)

// TestFaults runs every row that has a test: first those that need the process to
// themselves, then the others beside each other.
func TestFaults(t *testing.T) {
	for _, turn := range []when{alone, beside, soaked} {
		for _, r := range catalogue {
			if r.test == nil || r.when != turn || turn == soaked && !soak() {
				continue
			}
			t.Run(r.id+" "+r.fault, func(t *testing.T) {
				t.Cleanup(func() { results.set(r.id, !t.Failed() && !t.Skipped()) })
				if turn != alone {
					t.Parallel()
				}
				r.test(t)
			})
		}
	}
}

// results is what came of the rows of this run: the tests tell it, TestMain writes it.
var results resultsOf

type resultsOf struct {
	mu  sync.Mutex
	met map[string]string // guarded by mu
}

func (r *resultsOf) set(id string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.met == nil {
		r.met = map[string]string{}
	}
	r.met[id] = fail
	if ok {
		r.met[id] = pass
	}
}

func (r *resultsOf) of(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.met[id]; ok {
		return s
	}
	return notRun
}

// writing writes the matrix after the run, where it is told to.
type writing struct{ m *testing.M }

func (w writing) Run() int {
	code := w.m.Run()
	beat.Stop()
	if rewrite() {
		if err := os.WriteFile(matrixFile, []byte(render(catalogue, results.of)), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func rewrite() bool { return os.Getenv("TIERLOCK_FAULT_MATRIX") == "write" }

const matrixHead = `# Fault matrix

What happens to a lock when something breaks, row by row. Each row with a verdict is a test of ` + "`test/faults`" + ` that injects the
fault into real servers and processes and looks at what a caller of the gateway gets. This file is written by the run itself:

    cd test && TIERLOCK_SERVERS=real TIERLOCK_SOAK=1 TIERLOCK_FAULT_MATRIX=write go test -timeout 20m ./faults

and a test holds that it has every row of the catalogue as it stands in the code. R is Redis and the way to it, C the client's
process, N the switch, K the trail, Z and S other stores, D the daemon, X several at once. A row that is not run by it is no fault of
the lock itself and names the test that looks at it, in a run of its own of which nothing is claimed here; or it says that there is none.

| id | fault | expected | verdict |
|---|---|---|---|
`

// render writes the catalogue with a verdict for each row.
func render(rows []row, verdict func(id string) string) string {
	var b strings.Builder
	b.WriteString(matrixHead)
	var soaks []string
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.id, r.fault, r.cell(), verdict(r.id))
		if r.when == soaked {
			soaks = append(soaks, r.id)
		}
	}
	b.WriteString("\nEvery run of the tests runs them, but for those that take long, which run with TIERLOCK_SOAK: " + strings.Join(soaks, ", ") + ".\n")
	return b.String()
}

// cell is what is expected, and who holds it where this suite does not.
func (r row) cell() string {
	if r.held == "" {
		return r.expected
	}
	folder, test := r.holder()
	return fmt.Sprintf("%s: `%s`, %s", r.expected, folder, test)
}

// holder takes held apart.
func (r row) holder() (folder, test string) {
	folder, test, _ = strings.Cut(r.held, ".")
	return folder, test
}

// verdicts reads them back.
func verdicts(text string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == 4 {
			id := strings.TrimSpace(cells[0])
			found[id] = append(found[id], strings.TrimSpace(cells[3]))
		}
	}
	return found
}

func TestMatrixIsThatOfTheCatalogue(t *testing.T) {
	if rewrite() {
		t.Log("this run writes it")
		return
	}
	text, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	found := verdicts(string(text))
	for _, r := range catalogue {
		got := found[r.id]
		if len(got) != 1 {
			t.Errorf("%s has %d rows, want one", r.id, len(got))
			continue
		}
		if run := got[0] == pass || got[0] == fail; run != (r.test != nil) || !run && got[0] != notRun {
			t.Errorf("%s: %q, and it has a test: %t", r.id, got[0], r.test != nil)
		}
	}
	if want := render(catalogue, func(id string) string { return strings.Join(found[id], "") }); want != string(text) {
		t.Error("the file is not what the catalogue makes: write it anew with TIERLOCK_FAULT_MATRIX=write")
	}
}

// The catalogue itself: every id of the research it comes from, once, in order.
func TestCatalogueIsWhole(t *testing.T) {
	var want []string
	for _, group := range []struct {
		letter string
		last   int
	}{{"R", 40}, {"C", 16}, {"N", 10}, {"K", 12}, {"Z", 8}, {"S", 7}, {"D", 12}, {"X", 7}} {
		for n := range group.last {
			want = append(want, group.letter+strconv.Itoa(n+1))
		}
	}
	if len(want) != len(catalogue) {
		t.Fatalf("%d rows, want %d", len(catalogue), len(want))
	}
	for i, r := range catalogue {
		if r.id != want[i] || r.fault == "" || r.expected == "" || strings.Contains(r.fault+r.cell(), "|") {
			t.Errorf("row %d: %+v, want %s", i, r, want[i])
		}
	}
}

// A row that this suite does not run names a test that there is, and no row has both.
func TestRowsNameTestsThatThereAre(t *testing.T) {
	for _, r := range catalogue {
		if r.held == "" {
			continue
		}
		if r.test != nil {
			t.Errorf("%s is run here and names %s", r.id, r.held)
		}
		if folder, test := r.holder(); !slices.Contains(testsOf(t, folder), test) {
			t.Errorf("%s: there is no %s in %s", r.id, test, folder)
		}
	}
	if got := testsOf(t, "test/faults"); !slices.Contains(got, "TestRowsNameTestsThatThereAre") || slices.Contains(got, "testsOf") {
		t.Errorf("the tests of this folder: %q", got)
	}
}

// testsOf are the names of the tests in a folder of the project.
func testsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// The matrix test itself: it sees a row too many, one too few and one that claims too much.
func TestVerdictsAreRead(t *testing.T) {
	rows := []row{{id: "R1", fault: "a", expected: "b"}, {id: "R2", fault: "c", expected: "d"}}
	text := render(rows, func(string) string { return pass }) + "| R2 | c | d | fail |\n"
	got := verdicts(text)
	if len(got["R1"]) != 1 || len(got["R2"]) != 2 || got["R1"][0] != pass || got["R2"][1] != fail {
		t.Errorf("%v", got)
	}
}
