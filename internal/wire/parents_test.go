package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/rotahq/rota/internal/wire"
)

func TestParentsAreATextOrAList(t *testing.T) {
	for text, want := range map[string]struct {
		parents wire.Parents
		written string
	}{
		`""`: {"", `""`}, `"a"`: {"a", `"a"`}, `["a"]`: {"a", `"a"`}, `[]`: {"", `""`},
		`["a","b"]`: {"a,b", `["a","b"]`}, `"a,b"`: {"a,b", `["a","b"]`},
	} {
		var p wire.Parents
		if err := json.Unmarshal([]byte(text), &p); err != nil || p != want.parents {
			t.Errorf("%s: read as %q, %v", text, p, err)
		}
		if b, err := json.Marshal(p); err != nil || string(b) != want.written {
			t.Errorf("%s: written as %s, %v", text, b, err)
		}
	}
	for _, text := range []string{`7`, `{"a":1}`, `["a",7]`, `["a,b","c"]`, `[""]`} {
		var p wire.Parents
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s: read as %q", text, p)
		}
	}
}
