package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPatternsMatchNamesAndBeginnings(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		name     string
		want     bool
	}{
		{nil, "node.online", true},
		{[]string{"node.online"}, "node.online", true},
		{[]string{"node.online"}, "node.online2", false},
		{[]string{"node.*"}, "node.online", true},
		{[]string{"node.*"}, "node", false},
		{[]string{"node.*"}, "nodes.gone", false},
		{[]string{"*"}, "anything", true},
		{[]string{"a", "b*"}, "bc", true},
		{[]string{"a", "b*"}, "ac", false},
		{[]string{"n*e"}, "node", false},
	} {
		if got := Matches(c.patterns, c.name); got != c.want {
			t.Errorf("Matches(%q, %q) = %v", c.patterns, c.name, got)
		}
	}
}

func TestSecretsShowThemselvesToStoresOnly(t *testing.T) {
	const word = "hunter2"
	n := Notifier{
		Name: "ops", Kind: "email", On: []string{"node.*"}, To: []string{"a@b"},
		Secrets: Secrets{word + "u", word + "k", word + "p"},
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "n", n, "s", n.Secrets, "one", n.Secrets.URL)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "n", n, "s", n.Secrets, "one", n.Secrets.URL)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&log, verb+verb+verb, n, n.Secrets, n.Secrets.Key)
	}
	for _, v := range []any{n, n.Secrets, n.Secrets.Password} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		log.Write(b)
	}
	if strings.Contains(log.String(), word) ||
		strings.Contains(log.String(), fmt.Sprintf("%x", word)) {
		t.Errorf("a secret stands in %s", &log)
	}
	shown, secret, err := n.Columns()
	if err != nil || bytes.Contains(shown, []byte(word)) {
		t.Fatalf("columns: %s, %v", shown, err)
	}
	again := Notifier{Name: "ops"}
	if err := again.SetColumns(shown, secret); err != nil || !reflect.DeepEqual(again, n) {
		t.Errorf("read again: %v, %v", again, err)
	}
}

func FuzzColumnsComeBack(f *testing.F) {
	f.Add("email", "node.*", "{{.Text}}", "https://x/y", "whsec_")
	f.Fuzz(func(t *testing.T, kind, on, template, url, key string) {
		n := Notifier{
			Name: "n", Kind: kind, On: []string{on}, Template: template, Secrets: Secrets{
				URL: Secret(url), Key: Secret(key),
			},
		}
		shown, secret, err := n.Columns()
		if err != nil {
			t.Fatal(err)
		}
		again := Notifier{Name: "n"}
		if err := again.SetColumns(shown, secret); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(strings.Join([]string{kind, on, template, url, key}, " ")) &&
			!reflect.DeepEqual(again, n) {
			t.Errorf("%q became %q, %q %q became %q %q", shown,
				again.Kind+again.On[0]+again.Template, url, key, string(again.Secrets.URL),
				string(again.Secrets.Key))
		}
	})
}
