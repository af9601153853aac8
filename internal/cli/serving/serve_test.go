package serving_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/cli/clitest"
)

func TestServeSaysWhereItIsAndEndsCleanly(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "rota.db")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, to := io.Pipe()
	log := new(bytes.Buffer)
	code := make(chan int, 1)
	go func() {
		a := app.New(nil, to, log, clitest.NoEnv)
		code <- cli.Run(ctx, a, []string{"serve", "--listen", "127.0.0.1:0", "--store", store})
		to.Close()
	}()
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	words := strings.Fields(first)
	if err != nil || len(words) < 2 || !strings.HasPrefix(words[1], "http://127.0.0.1:") {
		t.Fatalf("first line %q names no address (%v); log %s", first, err, log)
	}
	rest := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(lines)
		rest <- string(text)
	}()
	c, err := client.New(client.Config{Servers: words[1:2]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Healthy(ctx); err != nil {
		t.Error(err)
	}

	second, complaint := new(bytes.Buffer), new(bytes.Buffer)
	a := app.New(nil, second, complaint, clitest.NoEnv)
	if got := cli.Run(
		ctx, a, []string{"serve", "--listen", "127.0.0.1:0", "--store", store},
	); got != cli.ExitFailed || second.Len() > 0 {
		t.Errorf("a second server on the same store exited with %d and printed %q", got, second)
	}
	if !strings.Contains(complaint.String(), "rota.db") {
		t.Errorf("the refusal %q does not name the file", complaint)
	}

	interrupt()
	if got := <-code; got != cli.ExitDone {
		t.Errorf("exit code %d after an interrupt, want 0; log %s", got, log)
	}
	if text := <-rest; !strings.Contains(text, "store      "+store) ||
		!strings.Contains(text, "/docs") || !strings.Contains(text, "console    http://127.0.0.1:") {
		t.Errorf("the other lines are %q", text)
	}
}
