package rota

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestChangesThroughANodeStandInItsEvents(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "rota.db")
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "ann operator operator-token-of-ann\n")
	conf := Config{Store: db, Name: "a", Listen: "127.0.0.1:0", TokenFile: tokens}
	n, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, n)
	c, err := client.New(client.Config{
		Servers: []string{"http://" + n.Addr()}, Fixed: true, Token: "operator-token-of-ann",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Submit(t.Context(), task.Submission{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	for range 30 { // the first ten one by one, the others when the node stops at the latest
		if err := c.PauseQueue(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if n, err = Open(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	defer running(t, n)()
	page, err := n.store.Events(t.Context(), store.EventQuery{
		Kinds: []string{"audit.*"}, Limit: 100,
	})
	if err != nil || len(page.Events) != 11 {
		t.Fatalf("%+v, %v", page.Events, err)
	}
	for i, e := range page.Events {
		if f := e.Fields; e.Kind != "audit.queue.pause" || f["by"] != "ann" ||
			f["from"] != "127.0.0.1" || i == 10 && f["calls"] != "20" {
			t.Errorf("%+v", e)
		}
		if !strings.Contains(e.Text, "ann (operator, from 127.0.0.1) paused queue") {
			t.Error(e.Text)
		}
	}
}
