// Package findings remembers which seed showed each planted bug, for tests that search through many
// random worlds for one that shows it. The search is what takes their time, and it ends at the same
// seed for as long as worlds are drawn as they were: so the test's testdata has that seed, and it is
// tried first. It proves as much as the search does, as the world is played each time. A seed that
// shows its bug no longer costs a search, and nothing else; it says how to write the file anew.
package findings

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("findings.update", false, "write which seed shows each planted bug anew")

// File is what a test's file says: a line "SEED NAME" for each planted bug, by name. It may be used
// by several goroutines.
type File struct {
	path string

	mu    sync.Mutex
	seeds map[string]uint64 // as the file says, and as searches of this run found
}

// Open reads a file, which need not exist. With -findings.update what is found is written to it
// when the test ends; what is not searched for stays as it is.
func Open(t *testing.T, path string) *File {
	t.Helper()
	return open(t, path, *update)
}

func open(t *testing.T, path string, rewrite bool) *File {
	t.Helper()
	f := &File{path: path, seeds: map[string]uint64{}}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		number, name, _ := strings.Cut(lines.Text(), " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("read %s: %q has no seed", path, lines.Text())
		}
		f.seeds[name] = seed
	}
	if rewrite {
		t.Cleanup(func() {
			if err := f.write(); err != nil {
				t.Error(err)
			}
		})
	}
	return f
}

// Search is the seed from first to last, above 0, that shows a bug: that of the file if it still
// does, else the first that does; 0 = none.
func (f *File) Search(
	t *testing.T, name string, first, last uint64, shows func(seed uint64) bool,
) uint64 {
	t.Helper()
	f.mu.Lock()
	known := f.seeds[name]
	f.mu.Unlock()
	if known >= first && known <= last && shows(known) {
		return known
	}
	for seed := first; seed <= last; seed++ {
		if seed != known && shows(seed) {
			f.set(name, seed)
			t.Logf("seed %d shows it, and not %d, as %s says: -findings.update writes it down, "+
				"which saves the search", seed, known, f.path)
			return seed
		}
	}
	f.set(name, 0)
	return 0
}

func (f *File) set(name string, seed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seed == 0 {
		delete(f.seeds, name)
	} else {
		f.seeds[name] = seed
	}
}

func (f *File) write() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(f.seeds)) {
		fmt.Fprintf(&text, "%d %s\n", f.seeds[name], name)
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(f.path, text.Bytes(), 0o644)
}
