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
		"stuck": "true", "all": "true",
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
						"{Queue: State: Stage: Worker: Key: Since:0 Until:0 Error:<nil> "))
			if !refused && !honoured {
				t.Errorf("%s by %s: %d %s, changed %q", verb, name, r.StatusCode, text, changed)
			}
		}
		if name == "all" { // a list takes all there is anyway
			continue
		}
		r, text := ask(t, a, "GET /v1/tasks?"+name+"="+strings.Trim(value, `"`), "")
		known := reflect.ValueOf(client.TaskFilter{}).FieldByNameFunc(func(s string) bool {
			return strings.EqualFold(s, name)
		}).IsValid()
		if want := map[bool]int{true: http.StatusOK,
			false: http.StatusUnprocessableEntity}[known]; r.StatusCode != want {
			t.Errorf("list by %s: %d %s", name, r.StatusCode, text)
		}
	}
}
