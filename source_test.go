package rota

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

func TestNodeRefusesSourcesThatItWouldNotRead(t *testing.T) {
	store, lists := "sqlite:"+filepath.Join(t.TempDir(), "rota.db"), t.TempDir()
	path := filepath.Join(lists, "list")
	if err := os.WriteFile(path, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	put := func(folder, path string, replicas int) error {
		n, err := Open(t.Context(), Config{
			Store: store, Name: "a", Listen: "127.0.0.1:0", SourceFolder: folder,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer running(t, n)()
		change := client.GroupChange{Replicas: &replicas}
		if path != "" {
			change.Source = &task.Source{Kind: task.SourceFile, Path: path}
		}
		_, err = speaks(t, n).PutGroup(t.Context(), "g", change)
		return err
	}
	for _, c := range []struct{ folder, path, why string }{
		{"", path, "--source-folder"}, {lists, "/etc/passwd", "is not in the folder"},
		{lists, path, ""},
		{"", "", ""},                        // the group can still be changed
		{"", path, ""},                      // and put as it is
		{"", path, ""},                      //
		{"", path + "2", "--source-folder"}, // but not led elsewhere
	} {
		err := put(c.folder, c.path, 2)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("source %q with folder %q: %v, want %q in it", c.path, c.folder, err, c.why)
		}
	}
}
