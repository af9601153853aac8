package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/rotahq/rota/client"
)

// TestEachFilterIsHonouredOrRefused: a filter that is ignored takes what was not meant, and more
// than was meant.
func TestEachFilterIsHonouredOrRefused(t *testing.T) {
	values := map[string]string{
		"state": `"dead"`, "since": `"2026-01-02T03:04:05Z"`, "until": `"2026-01-02T03:04:05Z"`,
		"stuck": "true", "all": "true", "meta": `{"x":"y"}`,
	}
	f := newFake()
	a := newAPI(t, f, nil)
	names := []string{"unknown", "group_key", "parent"}
	for field := range reflect.TypeFor[client.TaskFilter]().Fields() {
		names = append(names, strings.ToLower(field.Name))
	}
	for _, name := range names {
		value := values[name]
		if value == "" {
			value = `"x"`
		}
		for _, verb := range []string{"cancel", "retry"} {
			before := len(f.changed())
			r, text := ask(t, a, "POST /v1/tasks/"+verb,
				fmt.Sprintf(`{"filter":{%q:%s}}`, name, value))
			changed := f.changed()[before:]
			refused := r.StatusCode == http.StatusUnprocessableEntity &&
				strings.Contains(text, "body.filter."+name) && len(changed) == 0
			honoured := r.StatusCode == http.StatusOK && len(changed) == 2 &&
				(name == "all" ||
					!strings.Contains(changed[0],
						"{Queue: State: Stage: Worker: Key: Meta: Since:0 Until:0 Error:<nil> "))
			if !refused && !honoured {
				t.Errorf("%s by %s: %d %s, changed %q", verb, name, r.StatusCode, text, changed)
			}
		}
		if name == "all" { // a list takes all there is anyway
			continue
		}
		param := name + "=" + strings.Trim(value, `"`)
		if name == "meta" {
			param = "meta.x=y"
		}
		r, text := ask(t, a, "GET /v1/tasks?"+param, "")
		known := reflect.ValueOf(client.TaskFilter{}).FieldByNameFunc(func(s string) bool {
			return strings.EqualFold(s, name)
		}).IsValid()
		if want := map[bool]int{true: http.StatusOK,
			false: http.StatusUnprocessableEntity}[known]; r.StatusCode != want {
			t.Errorf("list by %s: %d %s", name, r.StatusCode, text)
		}
	}
}

// TestListsFilterByMeta: the names are the caller's own, and what is wrong with one has its place.
func TestListsFilterByMeta(t *testing.T) {
	f := newFake()
	f.tasks[0].Meta = map[string]string{"customer": "7", "a.b": "x y"}
	f.tasks[1].Meta = map[string]string{"customer": "8"}
	a := newAPI(t, f, nil)
	for _, test := range []struct {
		query string
		want  []int
	}{
		{"meta.customer=7", []int{0}},
		{"meta.customer=7&meta.a.b=x+y&limit=10", []int{0}},
		{"meta.customer=7&meta.a.b=z", nil},
		{"meta.customer=", nil},
		{"queue=mail&meta.customer=8", []int{1}},
	} {
		r, text := ask(t, a, "GET /v1/tasks?"+test.query, "")
		want := ""
		for _, i := range test.want {
			want += f.tasks[i].ID.String()
		}
		got := ""
		for _, part := range strings.Split(text, `"id":"`)[1:] {
			got += part[:15]
		}
		if r.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %d %s", test.query, r.StatusCode, text)
		}
	}
	for query, place := range map[string]string{
		"meta.=7": "query.meta.", "meta.a%20b=7": "query.meta.a b", "meta.a=1&meta.a=2": "query.meta.a",
		"meta.a=%0a": "query.meta.a", "meta=7": "query.meta", "metal.a=7": "query.metal.a",
		"meta.a=" + strings.Repeat("x", 257): "query.meta.a",
	} {
		r, text := ask(t, a, "GET /v1/tasks?"+query, "")
		if r.StatusCode != http.StatusUnprocessableEntity ||
			!strings.Contains(text, `"location":"`+place+`"`) {
			t.Errorf("%s: %d %s", query, r.StatusCode, text)
		}
	}
	for _, body := range []string{`{"filter":{"meta":{}}}`, `{"filter":{"meta":{"a b":"1"}}}`} {
		before := len(f.changed())
		r, text := ask(t, a, "POST /v1/tasks/cancel", body)
		if r.StatusCode != http.StatusUnprocessableEntity || len(f.changed()) > before {
			t.Errorf("%s: %d %s", body, r.StatusCode, text)
		}
	}
}

// A page that ended at a task out of scope would tell that there is one that the filter selects:
// who asks for errors, keys or strings could find out those of others.
func TestPagesAreAsIfThereWereNoTasksOutOfScope(t *testing.T) {
	f := newFake() // the newest task is of queue scan
	a := newAPI(t, f, func(c *Config) { c.Tokens = scoped(t) })
	for query, want := range map[string]string{
		"limit=1": idOf(2).String(), "limit=1&state=running": `{"items":[],"next":""}`,
	} {
		response, text := ask(t, a, "GET /v1/tasks?"+query, "", "Authorization: Bearer viewer-in")
		if response.StatusCode != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", query, response.StatusCode, text, want)
		}
	}
}
