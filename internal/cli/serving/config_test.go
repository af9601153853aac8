package serving

import (
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/cli/app"
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
	_, sample, _ := strings.Cut(commands{new(app.App)}.serve().Long, "for each token:\n")
	sample, _, _ = strings.Cut(sample, "\nBehind a token")
	if n := strings.Count(sample, "..."); n != 5 {
		t.Errorf("%d tokens in %q, want one of each role", n, sample)
	}
	if _, err := api.ParseTokens(strings.NewReader(sample)); err != nil {
		t.Error(err)
	}
}

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
