package supervise_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

// folder is one that files of sources are read from.
func folder(t testing.TB, dir string) *supervise.Folder {
	t.Helper()
	f, err := supervise.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func readFile(t *testing.T, c supervise.Sources, path string) error {
	t.Helper()
	_, _, err := c.Read(t.Context(), task.Source{Kind: task.SourceFile, Path: path})
	return err
}

func TestFilesAreReadBelowTheFolderOnly(t *testing.T) {
	dir := t.TempDir()
	lists, secret := filepath.Join(dir, "lists"), filepath.Join(dir, "secret")
	for _, err := range []error{
		os.Mkdir(lists, 0o700), os.WriteFile(secret, []byte("a\n"), 0o600),
		os.WriteFile(filepath.Join(lists, "list"), []byte("a\n"), 0o600),
		os.Symlink("list", filepath.Join(lists, "near")),
		os.Symlink("../secret", filepath.Join(lists, "far")),
		os.Symlink(secret, filepath.Join(lists, "whole")),
		os.Symlink(dir, filepath.Join(lists, "up")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := supervise.Sources{Folder: folder(t, lists)}
	for _, path := range []string{lists + "/list", lists + "/near", lists + "/./list",
		lists + "/x/../list"} {
		if err := readFile(t, c, path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, why := range map[string]string{
		secret: "not in the folder", lists + "/../secret": "not in the folder",
		lists: "not in the folder", lists + "-2/list": "not in the folder",
		"/": "not in the folder", "list": "not in the folder", lists + "/far": "escapes",
		lists + "/whole": "escapes", lists + "/up/secret": "escapes",
	} {
		if err := readFile(t, c, path); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q in it", path, err, why)
		}
	}
	if err := readFile(
		t, supervise.Sources{}, lists+"/list",
	); err == nil || !strings.Contains(err.Error(), "--source-folder") {
		t.Errorf("without a folder: %v, want it to say what to do", err)
	}
}

func TestWhatIsNoFileIsNotRead(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{"/dev": "/dev/zero", dir: filepath.Join(dir, "none"),
		filepath.Dir(dir): dir} {
		if err := readFile(t, supervise.Sources{Folder: folder(t, name)}, path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}
