package findings

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheSeedOfLastTimeIsTriedFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "findings") // whose folder is not there yet
	var tried []uint64
	shows := func(bad ...uint64) func(uint64) bool {
		tried = nil
		return func(seed uint64) bool {
			tried = append(tried, seed)
			return slices.Contains(bad, seed)
		}
	}
	for _, step := range []struct {
		name   string
		bad    []uint64
		from   uint64
		seed   uint64
		worlds int // that were played
	}{
		{"a search, as there is no file", []uint64{7, 9}, 1, 7, 7},
		{"the seed of last time", []uint64{7, 9}, 1, 7, 1},
		{"it does not show the bug any more", []uint64{9}, 1, 9, 9},
		{"nothing does", nil, 1, 0, 10},
		{"it was left out of the file, as nothing showed it", []uint64{9}, 1, 9, 9},
		{"a seed of before the first", []uint64{9, 12}, 11, 12, 2},
	} {
		t.Run(step.name, func(t *testing.T) {
			f := open(t, path, true)
			seed := f.Search(t, "a bug", step.from, step.from+9, shows(step.bad...))
			if seed != step.seed {
				t.Errorf("found seed %d, want %d", seed, step.seed)
			}
			if len(tried) != step.worlds {
				t.Errorf("%d worlds were played, want %d: %v", len(tried), step.worlds, tried)
			}
		})
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "12 a bug\n" {
		t.Errorf("the file says %q, %v", text, err)
	}
}

func TestAFileIsLeftAloneUnlessToldOtherwise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "findings")
	t.Run("search", func(t *testing.T) {
		open(t, path, false).Search(t, "a bug", 1, 3, func(seed uint64) bool { return seed == 2 })
	})
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a file was written: %v", err)
	}
}
