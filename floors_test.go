package rota

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/story"
)

const module = "github.com/rotahq/rota"

// floors says on which floor each package stands. Imports go down only, and rooms (floor 2) never
// import each other.
var floors = map[string]int{
	"task": 0, "view": 0, "balance": 0, "place": 0, "cron": 0,
	"internal/progress": 0, "internal/admission": 0, "internal/limits": 0, "internal/seal": 0,
	"internal/store": 0, "internal/store/contract": 0,
	"internal/store/fault": 1, "internal/store/model": 1, "internal/store/pagebench": 1,
	"internal/store/caller": 1, "internal/store/walk": 1, "internal/story": 1,
	"internal/store/rules": 0, "internal/store/pack": 0,
	"internal/wire": 0, "internal/frame": 0, "internal/counters": 0, "internal/history": 0,
	"internal/bucket":   0,
	"internal/forecast": 0, "internal/capacity": 2, "internal/drain": 2,
	"internal/explain": 0, "internal/overview": 0,
	"internal/store/rules/assign": 0, "internal/store/rules/retain": 0, "internal/listing": 0,
	"internal/usage": 0, "internal/names": 0, "internal/hook": 0, "internal/tracecontext": 0,
	"pool": 1, "tick": 1, "lease": 1, "internal/proclock": 1, "internal/observe": 1,
	"internal/logshare": 1, "internal/outbox": 1, "internal/pass": 1, "internal/inprocess": 1,
	"internal/command": 1, "internal/console": 1, "internal/stream": 1,
	"internal/meter": 1,
	"internal/term":  1, "internal/child": 1, "internal/measure": 1, "internal/pause": 1,
	"internal/dispatch": 2, "internal/scheduler": 2, "internal/supervise": 2, "internal/firing": 2,
	"internal/api": 2, "internal/store/sqlite": 2, "internal/store/postgres": 2,
	"internal/store/blob": 2, "internal/notify": 2, "internal/peers": 2, "internal/inbound": 2,
	"internal/store/storetest": 2, "internal/pgtest": 2, "internal/ptytest": 1,
	"internal/findings": 1,
	"internal/sim":      3, "internal/sim/waiting": 3, "internal/chaos": 3,
	"internal/nodetest": 3,
	"internal/expired":  2,
	"internal/unserved": 2, "internal/queuetest": 2, "worker": 2, "client": 2,
	".":        3,
	"cmd/rota": 4, "internal/demo": 4, "internal/top": 4, "internal/simulate": 4,
	"internal/recording": 4, "internal/bench": 4, "rotatest": 4, "internal/scenarios": 4,
	"internal/cli": 4, "internal/cli/app": 4, "internal/cli/await": 4, "internal/cli/chart": 4,
	"internal/cli/clitest": 4, "internal/cli/guard": 4, "internal/cli/taskview": 4,
	"internal/cli/events": 4, "internal/cli/groups": 4, "internal/cli/hooks": 4,
	"internal/cli/nodes": 4, "internal/cli/queues": 4, "internal/cli/schedules": 4,
	"internal/cli/serving": 4, "internal/cli/tasks": 4, "internal/cli/tools": 4,
	"internal/cli/top": 4, "internal/cli/workers": 4,
}

// nouns are the packages of commands. None imports another one: what two of them need stands below
// them, as package app does.
var nouns = map[string]bool{
	"internal/cli/events": true, "internal/cli/groups": true, "internal/cli/hooks": true,
	"internal/cli/nodes": true, "internal/cli/queues": true, "internal/cli/schedules": true,
	"internal/cli/serving": true, "internal/cli/tasks": true, "internal/cli/tools": true,
	"internal/cli/top": true, "internal/cli/workers": true,
}

// overNouns are who may import nouns: the root of the commands, and rota top, which shows things of
// all nouns in the words of their own commands.
var overNouns = []string{"internal/cli", "internal/cli/top"}

// lodgers are rooms that other rooms may import: a store of files that the SQL stores keep their
// large values in, and the client, by which nodes speak to each other.
var lodgers = map[string][]string{
	"client":              {"internal/peers"},
	"internal/store/blob": {"internal/store/sqlite", "internal/store/postgres"},
}

// strangers are packages that another one must not know, though it stands higher: the stores'
// reference model decides in code of its own, so that a mistake in a rule of the stores is a
// difference from it.
var strangers = map[string][]string{
	"internal/store/model":     {"internal/store/rules"},
	"internal/store/caller":    {"internal/store/rules"},
	"internal/store/walk":      {"internal/store/rules"},
	"internal/store/storetest": {"internal/store/rules"},
}

// testsOnly are packages that only test files may import.
var testsOnly = map[string]bool{
	"internal/store/contract": true, "internal/store/fault": true, "internal/store/model": true,
	"internal/store/caller": true, "internal/store/walk": true, "internal/store/pagebench": true,
	"internal/store/storetest": true, "internal/queuetest": true, "internal/pgtest": true,
	"internal/ptytest": true, "internal/story": true, "internal/nodetest": true,
	"internal/sim": true, "internal/chaos": true, "internal/scenarios": true, "rotatest": true,
	"internal/sim/waiting": true, "internal/cli/clitest": true,
}

// apart are the folders that are modules of their own.
var apart = map[string]bool{"bench": true, "otel": true}

// parsed is one file of the tree.
type parsed struct {
	name string // path below the module root
	pkg  string // directory below the module root
	test bool
	file *ast.File
}

func parseTree(t *testing.T) []parsed {
	t.Helper()
	var files []parsed
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if n := e.Name(); n == "testdata" || apart[name] || n == "examples" ||
				strings.HasPrefix(n, ".") && n != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		files = append(files, parsed{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// importsOf lists a file's imports of this module, as directories below its root.
func importsOf(f *ast.File) (own, all []string) {
	for _, s := range f.Imports {
		p := strings.Trim(s.Path.Value, `"`)
		all = append(all, p)
		if p == module {
			own = append(own, ".")
		} else if rest, ok := strings.CutPrefix(p, module+"/"); ok {
			own = append(own, rest)
		}
	}
	return own, all
}

// breach says what is wrong with one import, or "".
func breach(from, to string, test bool) string {
	a, known := floors[from]
	b, known2 := floors[to]
	switch {
	case !known:
		return fmt.Sprintf("package %s has no floor: give it one in floors_test.go", from)
	case !known2:
		return fmt.Sprintf("package %s has no floor: give it one in floors_test.go", to)
	case slices.Contains(strangers[from], to):
		return fmt.Sprintf("%s imports %s: it must not know it", from, to)
	case from == to, test: // tests may look at anything
		return ""
	case nouns[to] && !slices.Contains(overNouns, from):
		return fmt.Sprintf("%s imports %s: no noun's commands know another one's", from, to)
	case testsOnly[to] && !testsOnly[from]:
		return fmt.Sprintf("%s imports %s outside of tests", from, to)
	case b > a:
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d): imports go down only", from, a, to,
			b)
	case a == 2 && b == 2 && !slices.Contains(lodgers[to], from):
		return fmt.Sprintf("%s imports %s: rooms never import each other", from, to)
	}
	return ""
}

func TestImportsGoDownOnly(t *testing.T) {
	story.Whole(t)
	seen := map[string]bool{}
	for _, f := range parseTree(t) {
		seen[f.pkg] = true
		own, _ := importsOf(f.file)
		for _, to := range own {
			if msg := breach(f.pkg, to, f.test); msg != "" {
				t.Errorf("%s: %s", f.name, msg)
			}
		}
	}
	for pkg := range seen {
		if _, ok := floors[pkg]; !ok {
			t.Errorf("package %s has no floor: give it one in floors_test.go", pkg)
		}
	}
}

func TestBreachesAreFound(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"task", "internal/store", false}, {"task", "tick", true},
		{"tick", "internal/dispatch", true}, {"worker", "client", true},
		{"internal/api", "internal/dispatch", true},
		{"internal/store/sqlite", "internal/store/blob", false},
		{"internal/api", "internal/store/blob", true},
		{".", "cmd/rota", true}, {"cmd/rota", ".", false},
		{"internal/api", "internal/store/storetest", true}, {"unheard-of", "task", true},
		{"internal/store/sqlite", "internal/store/rules", false},
		{"internal/store/storetest", "internal/store/rules", true},
		{"internal/store/model", "internal/store/rules", true},
		{"internal/store/walk", "internal/store/rules", true},
		{"internal/cli", "internal/cli/tasks", false},
		{"internal/cli/top", "internal/cli/tasks", false},
		{"internal/cli/queues", "internal/cli/tasks", true},
		{"internal/cli/tasks", "internal/cli/app", false},
		{"internal/cli/app", "internal/cli/tasks", true},
	} {
		if got := breach(c.from, c.to, false) != ""; got != c.want {
			t.Errorf("breach(%s, %s) = %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// The ground floor is pure: no clock, no luck, no I/O.
func TestGroundFloorIsPure(t *testing.T) {
	story.Whole(t)
	forbidden := map[string]bool{
		"math/rand": true, "math/rand/v2": true, "crypto/rand": true, "os": true, "net": true,
		"net/http": true, "io/fs": true, "database/sql": true, "log": true, "log/slog": true,
	}
	clock := map[string]bool{
		"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
		"NewTimer": true, "NewTicker": true, "Tick": true,
	}
	for _, f := range parseTree(t) {
		if floors[f.pkg] != 0 || f.test {
			continue
		}
		_, all := importsOf(f.file)
		for _, p := range all {
			if forbidden[p] {
				t.Errorf("%s imports %q: the ground floor knows no I/O and no luck", f.name, p)
			}
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && clock[sel.Sel.Name] {
					t.Errorf("%s uses time.%s: on the ground floor time is an argument", f.name,
						sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// clientLinks are the outside modules that a program links which only submits tasks or does them:
// the WebSocket of streams, and what one worker's processes are watched by.
var clientLinks = []string{"github.com/coder/websocket", "golang.org/x/sys"}

// A program that only submits tasks or does them links little besides the standard library.
func TestClientsAndWorkersLinkTwoOutsideModules(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		"./client", "./worker", "./task", "./view").CombinedOutput()
	if err != nil {
		t.Fatalf("list dependencies: %v\n%s", err, out)
	}
	outside := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); name != "" && name != module {
			outside[name] = true
		}
	}
	if got := slices.Sorted(maps.Keys(outside)); !slices.Equal(got, clientLinks) {
		t.Errorf("they link %v, want %v", got, clientLinks)
	}
}

// Who does not want OpenTelemetry does not get it: it belongs to a module of its own.
func TestThisModuleKnowsNoOpenTelemetry(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "opentelemetry") {
			t.Errorf("%s names OpenTelemetry", name)
		}
	}
}

// Test and tool modules never reach the binary, and nothing in it needs cgo.
func TestBinaryCarriesNoTestModules(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f",
		"{{.ImportPath}} {{if .CgoFiles}}cgo{{end}}", "./cmd/rota").CombinedOutput()
	if err != nil {
		t.Fatalf("list dependencies: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		name, cgo, _ := strings.Cut(strings.TrimSpace(line), " ")
		own, _ := strings.CutPrefix(name, module+"/")
		if testsOnly[own] {
			t.Errorf("the binary depends on %s", name)
		}
		for _, no := range []string{"pgregory.net/rapid", "go.uber.org/goleak",
			"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "testing",
			"honnef.co/go/tools"} {
			if name == no || strings.HasPrefix(name, no+"/") {
				t.Errorf("the binary depends on %s", name)
			}
		}
		if cgo != "" && strings.Contains(name, ".") {
			t.Errorf("%s uses cgo", name)
		}
	}
}
