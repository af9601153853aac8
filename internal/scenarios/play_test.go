//go:build scenarios && unix

package scenarios

import (
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rotahq/rota/internal/pgtest"
)

// binary is the program, and examples the folder of the examples, built before the tests.
var binary, examples string

var built = flag.String("rota", "", "another binary to play with, as one that was released")

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	folder, err := os.MkdirTemp("", "rota-scenarios-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	binary, examples = filepath.Join(folder, "rota"), folder
	flag.Parse()
	build := exec.Command("go", "build", "-o", folder, "../../cmd/rota",
		"../../examples/fibonacci", "../../examples/children")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return 1
	}
	if *built != "" {
		binary = *built
	}
	return pgtest.Main(m)
}

func TestStories(t *testing.T) {
	for _, s := range readStories(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			var files []string
			for _, one := range s.scenarios {
				name := filepath.Join(folder, one.name+".txtar")
				if err := os.WriteFile(name, one.script, 0o600); err != nil {
					t.Fatal(err)
				}
				files = append(files, name)
			}
			testscript.Run(t, testscript.Params{
				Files: files, Setup: setUp, RequireUniqueNames: true,
				Cmds: commands(),
			})
		})
	}
}

// commands are what a story has besides what testscript has.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){
		"sees": sees, "exits": exits, "keep": keep, "database": database, "serve": serve,
		"ask": ask, "work": work, "begin": begin, "die": die, "end": end, "freeze": freeze,
		"thaw": thaw, "mails": mails, "jobs": jobs,
	}
	for _, name := range []string{"rota", "call", "show"} {
		all[name] = plain(name)
	}
	for name := range poolVerbs {
		all[name] = plain(name)
	}
	return all
}
