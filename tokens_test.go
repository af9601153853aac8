package rota

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestTokenFileMustBeSecretAndItsTokensLong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	const good = "ann operator operator-token-of-ann\n"
	for _, c := range []struct {
		mode os.FileMode
		text string
		want string
	}{
		{0o600, good, ""}, {0o400, good, ""}, {0o640, good, ""}, {0o440, good, ""},
		{0o644, good, "everybody on this machine may read it (mode 0644); mend it with: chmod 600"},
		{0o604, good, "chmod 600"},
		{0o620, good, "others than its owner may write it"},
		{0o602, good, "others than its owner may write it"},
		{0o600, "# all\n" + good + "bob viewer x\n",
			"line 3: the token must have at least 16 characters"},
		{0o600, good + "bob viewer 0123456789abcde\ncy viewer a\n", "line 3: "},
		{0o600, good + "bob viewer 0123456789abcdef\n", ""},
	} {
		if runtime.GOOS == "windows" && strings.Contains(c.want, "chmod") { // no such permissions
			continue
		}
		os.Remove(file)
		writeFile(t, file, c.text)
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := readTokens(file)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("mode %o, %q: %v, want %q", c.mode, c.text, err, c.want)
		}
	}
}

func TestTokensAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		os.Remove(file)
		writeFile(t, file, text)
	}
	write("ann operator operator-token-of-ann\n")
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "rota.db"), Name: "a", Listen: "127.0.0.1:0",
		TokenFile: file,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer running(t, n)()
	get := func(token, path string) *http.Response {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.Addr()+path,
			nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	want := func(token string, status int) {
		t.Helper()
		response := get(token, "/v1/queues")
		if response.Body.Close(); response.StatusCode != status {
			t.Errorf("%s: %s, want %d", token, response.Status, status)
		}
	}
	want("operator-token-of-ann", 200)
	stream := get("operator-token-of-ann", "/v1/events/stream")
	defer stream.Body.Close()
	write("bob viewer viewer-token-of-bob-0\n")
	if err := n.ReadTokens(); err != nil {
		t.Fatal(err)
	}
	want("operator-token-of-ann", 401)
	want("viewer-token-of-bob-0", 200)
	for b := make([]byte, 1000); ; { // ends, since its token is none any more
		if _, err := stream.Body.Read(b); err != nil {
			break
		}
	}
	for _, broken := range []string{"", "# none\n", "bob viewer x\n",
		"cy nobody viewer-token-of-cy-00\n"} {
		write(broken)
		if err := n.ReadTokens(); err == nil {
			t.Errorf("%q was taken", broken)
		}
		want("viewer-token-of-bob-0", 200)
	}
}

// A node whose membership ended joins again whatever stands in the file by now: it goes by the
// tokens that it has until somebody has it read others.
func TestNodeThatIsOpenedAgainKeepsItsTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, file, "ann operator operator-token-of-ann\n")
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "rota.db"), Name: "a", Listen: "127.0.0.1:0",
		TokenFile: file,
	})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(file)
	writeFile(t, file, "ann operator\n")
	if n.ReadTokens() == nil {
		t.Error("a file that is wrong was taken")
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := n.Reopen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer running(t, again)()
	for token, want := range map[string]int{"operator-token-of-ann": 200, "other": 401} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+again.Addr()+"/v1/queues", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != want {
			t.Errorf("%s: %s, want %d", token, response.Status, want)
		}
	}
}
