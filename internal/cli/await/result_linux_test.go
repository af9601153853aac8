package await

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/ptytest"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// A result is JSON, which may hold all but the oldest control characters as they are.
func TestAResultIsSafeOnATerminalAndAsItIsElsewhere(t *testing.T) {
	const evil = "{\n  \"a\": \"x\u202ey\u009b2Jz\"\n}"
	id, err := task.ParseID("1jwrrkvpcj00712")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"id":%q,"state":"done","result":%s}`, id, evil)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Servers: []string{server.URL}, Fixed: true, HTTPOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := ptytest.New(t, 60, 12)
	for _, out := range []*os.File{file, p.File} {
		a := &app.App{Output: term.Output{Out: out, Err: file, Now: time.Now}}
		if err := Result(t.Context(), a, c, id); err != nil {
			t.Fatal(err)
		}
	}
	p.Await(0, "  \"a\": \"x\\u202ey 2Jz\"\r\n}")
	if shown := p.Shown(); strings.ContainsAny(shown, "\u202e\u009b") {
		t.Errorf("the terminal is shown %q", shown)
	}
	if got, err := os.ReadFile(file.Name()); err != nil || !strings.Contains(string(got), evil) {
		t.Errorf("a file is written %q, %v", got, err)
	}
}
