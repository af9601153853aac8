package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

func TestStrangersNeedATokenOrTheOperatorsWord(t *testing.T) {
	for _, c := range []struct {
		listen, tokenFile string
		insecure, want    bool
	}{
		{"127.0.0.1:7700", "", false, true},
		{"127.8.8.8:0", "", false, true},
		{"[::1]:7700", "", false, true},
		{"localhost:7700", "", false, true},
		{":7700", "", false, false},
		{"0.0.0.0:7700", "", false, false},
		{"[::]:7700", "", false, false},
		{"10.0.0.1:7700", "", false, false},
		{"node.example.org:7700", "", false, false},
		{"localhost.example.org:7700", "", false, false},
		{"0.0.0.0:7700", "tokens", false, true},
		{"0.0.0.0:7700", "", true, true},
		{"7700", "", true, false},
		{"", "tokens", false, false},
	} {
		if err := checkAccess(c.listen, c.tokenFile, c.insecure); (err == nil) != c.want {
			t.Errorf("checkAccess(%q, %q, %v) = %v", c.listen, c.tokenFile, c.insecure, err)
		}
	}
}

func TestTokenFileInTheHelpIsOne(t *testing.T) {
	_, sample, _ := strings.Cut((&App{env: noEnv}).serve().Long, "for each token:\n")
	sample, _, _ = strings.Cut(sample, "\nBehind a token")
	if n := strings.Count(sample, "..."); n != 5 {
		t.Errorf("%d tokens in %q, want one of each role", n, sample)
	}
	if _, err := api.ParseTokens(strings.NewReader(sample)); err != nil {
		t.Error(err)
	}
}

func TestWorkersDefaultNameKeepsTheRule(t *testing.T) {
	for host, want := range map[string]string{
		"Box":                    "box-7",
		"box.example.org":        "box.example.org-7",
		"Anns MacBook":           "anns-macbook-7",
		"--x":                    "x-7",
		"机器":                     "host-7",
		"":                       "host-7",
		strings.Repeat("a", 500): strings.Repeat("a", 100) + "-7",
	} {
		got := nameHere(host, 7)
		if got != want || !task.ValidName(got) {
			t.Errorf("nameHere(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestServeSaysWhereItIsAndEndsCleanly(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "rota.db")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, to := io.Pipe()
	log := new(bytes.Buffer)
	code := make(chan int, 1)
	go func() {
		a := &App{Output: term.Output{Out: to, Err: log, Now: time.Now}, env: noEnv}
		code <- Run(ctx, a, []string{"serve", "--listen", "127.0.0.1:0", "--store", store})
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
	a := &App{Output: term.Output{Out: second, Err: complaint, Now: time.Now}, env: noEnv}
	if got := Run(
		ctx, a, []string{"serve", "--listen", "127.0.0.1:0", "--store", store},
	); got != ExitFailed || second.Len() > 0 {
		t.Errorf("a second server on the same store exited with %d and printed %q", got, second)
	}
	if !strings.Contains(complaint.String(), "rota.db") {
		t.Errorf("the refusal %q does not name the file", complaint)
	}

	interrupt()
	if got := <-code; got != ExitDone {
		t.Errorf("exit code %d after an interrupt, want 0; log %s", got, log)
	}
	if text := <-rest; !strings.Contains(text, "store      "+store) ||
		!strings.Contains(text, "/docs") {
		t.Errorf("the other lines are %q", text)
	}
}

func noEnv(string) (string, bool) { return "", false }

func TestStoreIsShownWithoutSecretsAndWithItsSchema(t *testing.T) {
	for store, want := range map[string]string{
		"sqlite:rota.db": "sqlite:rota.db",
		"postgres://rota:secret@db/rota?password=secret&rota_schema=two&sslmode=disable": "postgres://rota:xxxxx@db/rota?rota_schema=two",
		"postgres://rota@db/rota?sslmode=disable":                                        "postgres://rota@db/rota",
	} {
		if got := withoutSecrets(store); got != want {
			t.Errorf("%s is shown as %s, want %s", store, got, want)
		}
	}
}

func TestNodeThatListensEverywhereIsFoundByABrowserHere(t *testing.T) {
	for url, want := range map[string]string{
		"http://[::]:7700": "http://localhost:7700", "http://0.0.0.0:7700": "http://localhost:7700",
		"http://10.0.0.5:7700": "http://10.0.0.5:7700",
	} {
		if got := browsable(url); got != want {
			t.Errorf("browsable(%q) = %q, want %q", url, got, want)
		}
	}
}
