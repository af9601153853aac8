package console

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write dist again, by esbuild")

// command bundles the sources into the folder.
func command(folder string) *exec.Cmd {
	return exec.Command("go", "tool", "-modfile="+filepath.Join("..", "..", "tools.mod"), "esbuild",
		"app/main.tsx", "app/console.css", "--bundle", "--minify", "--format=esm",
		"--target=es2022,chrome110,firefox115,safari16.4", "--charset=utf8", "--legal-comments=none",
		"--jsx=automatic", "--jsx-import-source=preact",
		"--alias:preact=./vendor/preact/preact.mjs",
		"--alias:preact/hooks=./vendor/preact/hooks.mjs",
		"--alias:preact/jsx-runtime=./vendor/preact/jsxRuntime.mjs",
		"--alias:@preact/signals=./vendor/signals/signals.mjs",
		"--alias:@preact/signals-core=./vendor/signals/signals-core.mjs",
		"--entry-names=[name]", "--log-level=warning", "--outdir="+folder)
}

// bundle makes the folder what dist is to be.
func bundle(t *testing.T, folder string) {
	t.Helper()
	cmd := command(folder)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("esbuild: %v\n%s", err, said.String())
	}
	if err := os.Rename(
		filepath.Join(folder, "main.js"), filepath.Join(folder, "console.js"),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.html", "icon.svg"} {
		b, err := os.ReadFile(filepath.Join("app", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(
		filepath.Join(folder, "sums.txt"), []byte(sums(t, folder)), 0o644,
	); err != nil {
		t.Fatal(err)
	}
}

// sums are the hashes of all sources and of what was made of them, a line each.
func sums(t *testing.T, made string) string {
	t.Helper()
	var b strings.Builder
	for _, folder := range []string{"app", "vendor", made} {
		all := sources(t, folder)
		for _, name := range named(all) {
			shown := name
			if folder == made {
				shown = "dist/" + filepath.Base(name)
			}
			if shown != "dist/sums.txt" {
				fmt.Fprintf(&b, "%x %s\n", sha256.Sum256([]byte(all[name])), shown)
			}
		}
	}
	return b.String()
}

// The hashes that stand in dist are those of the sources it was made of, and its own: whoever
// changes a source, or the bundle, without go generate, fails here. ROTA_BUNDLE=must (make lint)
// also bundles again, and compares.
func TestBundleIsWhatTheSourcesGive(t *testing.T) {
	if *update {
		if err := os.RemoveAll("dist"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir("dist", 0o755); err != nil {
			t.Fatal(err)
		}
		bundle(t, "dist")
		return
	}
	have, err := os.ReadFile("dist/sums.txt")
	if err != nil {
		t.Fatal(err)
	}
	if want := sums(t, "dist"); string(have) != want {
		t.Fatalf("dist is not made of these sources: go generate ./internal/console\n%s",
			differing(string(have), want))
	}
	if os.Getenv("ROTA_BUNDLE") != "must" {
		return
	}
	fresh := t.TempDir()
	bundle(t, fresh)
	again, err := os.ReadFile(filepath.Join(fresh, "sums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(have) {
		t.Errorf("esbuild makes something else of the sources:\n%s",
			differing(string(have), string(again)))
	}
}

// differing are the lines of both that the other lacks.
func differing(a, b string) string {
	var out strings.Builder
	for _, l := range strings.Split(a, "\n") {
		if !strings.Contains(b, l) {
			out.WriteString("- " + l + "\n")
		}
	}
	for _, l := range strings.Split(b, "\n") {
		if !strings.Contains(a, l) {
			out.WriteString("+ " + l + "\n")
		}
	}
	return out.String()
}
