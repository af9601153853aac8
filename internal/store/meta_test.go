package store_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// drawMeta draws what a task may carry, of names and texts that resemble each other.
func drawMeta(t *rapid.T) map[string]string {
	name := rapid.StringMatching(`[ab][a:.-]{0,2}`)
	text := rapid.StringMatching(`["\\\\,:{}a7ü \x{2028}]{0,6}`)
	return rapid.MapOfN(name, text, 0, 4).Draw(t, "meta")
}

func TestMetasAreTheJSONOfTheirStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawMeta(t)
		m := store.MetaOf(list)
		if got := m.Strings(); !maps.Equal(got, list) {
			t.Fatalf("%v by way of %s: %v", list, m, got)
		}
		var plain map[string]string
		if m != "" {
			if err := json.Unmarshal([]byte(m), &plain); err != nil || !maps.Equal(plain, list) {
				t.Fatalf("%s: %v, %v", m, plain, err)
			}
		}
		var e task.InvalidError // what is counted is what is stored
		limits.CheckMeta(list, &e, "")
		if len(m) > limits.MaxMetaSize && e.Err() == nil {
			t.Fatalf("%d bytes pass", len(m))
		}
	})
}

func TestMetaHasWhatAllOfItsStringsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, want := drawMeta(t), drawMeta(t)
		if rapid.Bool().Draw(t, "some of it") {
			want = map[string]string{}
			for _, name := range slices.Sorted(maps.Keys(list)) {
				text := []rune(list[name])
				switch rapid.IntRange(0, 5).Draw(t, "which") {
				case 0, 1:
					want[name] = string(text)
				case 2: // of another name
					want[name[1:]] = string(text)
				case 3: // the beginning
					want[name] = string(text[:rapid.IntRange(0, len(text)).Draw(t, "end")])
				case 4: // the end
					want[name] = string(text[rapid.IntRange(0, len(text)).Draw(t, "from"):])
				}
			}
		}
		has := true
		for name, text := range want {
			got, ok := list[name]
			has = has && ok && got == text
		}
		if got := store.MetaOf(list).Has(store.MetaOf(want)); got != has {
			t.Fatalf("%v has %v: %v", list, want, got)
		}
	})
}
