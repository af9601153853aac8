package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/frame"
)

func TestDocumentIsTheOneThatWasReviewed(t *testing.T) {
	const name = "testdata/openapi.json"
	var got bytes.Buffer
	document, err := newAPI(t, newFake(), nil).document()
	if err == nil {
		err = json.Indent(&got, document, "", " ")
	}
	if err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	if *update {
		if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf(
			"the OpenAPI document changed; run go test ./internal/api -update and read the diff of %s",
			name,
		)
	}
}

// spec is as much of an OpenAPI document as the tests read.
type spec struct {
	Paths      map[string]map[string]operationSpec
	Components struct{ Schemas map[string]schemaSpec }
}

type operationSpec struct {
	OperationID string
	Parameters  []parameterSpec
	RequestBody struct {
		Content map[string]struct {
			Schema  schemaSpec
			Example json.RawMessage
		}
	}
	Responses map[string]any
}

type parameterSpec struct {
	Name, In string
	Example  string
	Schema   struct{ Examples []string }
}

type schemaSpec struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]schemaSpec
	Items      *schemaSpec
	Required   []string
	OneOf      []schemaSpec
}

func (s spec) resolve(x schemaSpec) schemaSpec {
	if name, ok := strings.CutPrefix(x.Ref, "#/components/schemas/"); ok {
		return s.Components.Schemas[name]
	}
	return x
}

func readSpec(t testing.TB, a *API) spec {
	t.Helper()
	var s spec
	document, err := a.document()
	if err == nil {
		err = json.Unmarshal(document, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryCallIsDescribed(t *testing.T) {
	s := readSpec(t, newAPI(t, newFake(), nil))
	for pattern := range rights {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		op, ok := s.Paths[path][strings.ToLower(method)]
		if !ok || op.Responses["default"] == nil || len(op.Responses) < 2 {
			t.Errorf("%s is not described", pattern)
		}
		for _, m := range parameter.FindAllString(path, -1) {
			if !slices.ContainsFunc(op.Parameters, func(p parameterSpec) bool {
				return "{"+p.Name+"}" == m && p.In == "path"
			}) {
				t.Errorf("%s: the path's %s is not described", pattern, m)
			}
		}
	}
}

// Every call is shown with an example, made as the page makes it; and the example works, as far as
// the state of its task lets it.
func TestEveryExampleWorks(t *testing.T) {
	on := &stage{newFake()}
	a := newAPI(t, on, nil)
	a.close() // streams end
	for path, operations := range readSpec(t, a).Paths {
		for method, op := range operations {
			on.Engine = newFake()
			target, query := path, ""
			for _, p := range op.Parameters {
				switch {
				case p.In == "path" && len(p.Schema.Examples) == 0:
					t.Errorf("%s %s: the path's %s has no example", method, path, p.Name)
				case p.In == "path":
					target = strings.ReplaceAll(target, "{"+p.Name+"}", p.Schema.Examples[0])
				case p.Example != "":
					query += "&" + p.Name + "=" + p.Example
				}
			}
			body := ""
			for _, content := range op.RequestBody.Content {
				if body = string(content.Example); body == "" {
					t.Errorf("%s %s: the body has no example", method, path)
				}
			}
			response, text := ask(t, a,
				strings.ToUpper(method)+" "+target+strings.Replace(query, "&", "?", 1), body)
			if target == frame.Path && response.StatusCode == http.StatusUpgradeRequired {
				continue // it is no WebSocket
			}
			if method == "post" && path == "/v1/hooks/{name}" &&
				response.StatusCode == http.StatusUnauthorized {
				continue // it is not signed
			}
			if response.StatusCode >= 300 && response.StatusCode != http.StatusConflict {
				t.Errorf("%s %s %s: %d %s", method, target, body, response.StatusCode, text)
			}
		}
	}
}

// The bodies of the hot calls are described by hand, and read by hand elsewhere: both must know the
// same fields.
func TestDescribedFieldsAreThoseThatAreRead(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	s := readSpec(t, a)
	for _, c := range []struct{ call, path, body, at string }{
		{"POST /v1/tasks", "", `{"?":1}`, ""},
		{"POST /v1/tasks", "", `{"tasks":[{"?":1}]}`, "tasks"},
		{"POST /v1/tasks/hold", "", `{"?":1}`, ""},
		{"POST /v1/tasks/report", "", `{"?":1}`, ""},
		{"POST /v1/tasks/report", "", `{"reports":[{"?":1}]}`, "reports"},
		{"POST /v1/workers/{worker}/beat", "/v1/workers/w1/beat", `{"?":1}`, ""},
		{"POST /v1/workers/{worker}/beat", "/v1/workers/w1/beat", `{"load":{"?":1}}`, "load"},
		{"POST /v1/workers/{worker}/beat", "/v1/workers/w1/beat", `{"tasks":[{"?":1}]}`, "tasks"},
		{"POST /v1/tasks/report", "", `{"reports":[{"await":{"?":1}}]}`, "reports.await"},
		{"POST /v1/tasks/report", "", `{"reports":[{"spawn":[{"?":1}]}]}`, "reports.spawn"},
		{"POST /v1/tasks/{id}/children", "/v1/tasks/" + idOf(3).String() + "/children",
			`{"?":1}`, ""},
		{"POST /v1/tasks/{id}/children", "/v1/tasks/" + idOf(3).String() + "/children",
			`{"tasks":[{"?":1}]}`, "tasks"},
		{"POST /v1/tasks/{id}/signal", "/v1/tasks/" + idOf(1).String() + "/signal", `{"?":1}`, ""},
		{"POST /v1/signals/{name}", "/v1/signals/paid", `{"?":1}`, ""},
		{"POST /v1/tasks/{id}/logs", "/v1/tasks/" + idOf(3).String() + "/logs", `{"?":1}`, ""},
		{"POST /v1/workers/{worker}/beat", "/v1/workers/w1/beat", `{"jobs":[{"?":1}]}`, "jobs"},
		{"PUT /v1/groups/{group}", "/v1/groups/tails", `{"?":1}`, ""},
		{"PUT /v1/groups/{group}", "/v1/groups/tails", `{"source":{"?":1}}`, "source"},
		{"PUT /v1/groups/{group}", "/v1/groups/tails", `{"policy":{"?":1}}`, "policy"},
		{"PUT /v1/groups/{group}/jobs", "/v1/groups/tails/jobs", `{"?":1}`, ""},
		{"POST /v1/groups/{group}/jobs", "/v1/groups/tails/jobs", `{"jobs":[{"?":1}]}`, "jobs"},
		{"POST /v1/groups/{group}/plan", "/v1/groups/tails/plan", `{"?":1}`, ""},
		{"POST /v1/groups/{group}/plan", "/v1/groups/tails/plan", `{"jobs":[{"?":1}]}`, "jobs"},
		{"POST /v1/groups/{group}/plan", "/v1/groups/tails/plan", `{"add_workers":[{"?":1}]}`,
			"add_workers"},
		{"POST /v1/groups/{group}/jobs/{job}/logs", "/v1/groups/tails/jobs/web.log/logs", `{"?":1}`,
			""},
		{"PUT /v1/queues/{queue}", "/v1/queues/mail", `{"?":1}`, ""},
		{"PUT /v1/queues/{queue}", "/v1/queues/mail", `{"retry":{"?":1}}`, "retry"},
		{"PUT /v1/schedules/{name}", "/v1/schedules/nightly", `{"?":1}`, ""},
		{"PUT /v1/schedules/{name}", "/v1/schedules/nightly", `{"notify":{"?":1}}`, "notify"},
		{"PUT /v1/schedules", "", `{"?":1}`, ""},
		{"PUT /v1/schedules", "", `{"schedules":[{"?":1}]}`, "schedules"},
		{"POST /v1/schedules/{name}/backfill", "/v1/schedules/nightly/backfill", `{"?":1}`, ""},
		{"POST /v1/schedules/preview", "", `{"?":1}`, ""},
		{"PUT /v1/calendars/{calendar}", "/v1/calendars/de", `{"?":1}`, ""},
		{"POST /v1/nodes/{node}/drain", "/v1/nodes/n1/drain", `{"?":1}`, ""},
		{"POST /v1/claims/release", "", `{"?":1}`, ""},
		{"POST /v1/tasks/{id}/retry", "/v1/tasks/" + idOf(2).String() + "/retry", `{"?":1}`, ""},
		{"POST /v1/tasks/cancel", "", `{"?":1}`, ""},
		{"POST /v1/tasks/cancel", "", `{"filter":{"?":1}}`, "filter"},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		var schema schemaSpec
		for _, content := range s.Paths[path][strings.ToLower(method)].RequestBody.Content {
			schema = s.resolve(content.Schema)
		}
		for at := range strings.SplitSeq(c.at, ".") {
			if at != "" {
				schema = s.resolve(schema.Properties[at])
			}
			if n := len(schema.OneOf); n > 0 { // an object is the last
				schema = s.resolve(schema.OneOf[n-1])
			}
			if schema.Items != nil {
				schema = s.resolve(*schema.Items)
			}
		}
		if c.path == "" {
			c.path = path
		}
		_, text := ask(t, a, method+" "+c.path, c.body)
		_, known, ok := strings.Cut(text, "known are ")
		known, _, _ = strings.Cut(known, `"`)
		read := strings.Split(known, ", ")
		var described []string
		for name := range schema.Properties {
			described = append(described, name)
		}
		slices.Sort(read)
		slices.Sort(described)
		if !ok || !slices.Equal(read, described) {
			t.Errorf("%s %s\nread      %v\ndescribed %v", c.call, c.at, read, described)
		}
	}
}

// Every answer of the stories holds what its description demands, and nothing that it does not
// know.
func TestAnswersAreAsDescribed(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	s := readSpec(t, a)
	answers := 0
	for _, call := range readExchanges(t, "testdata/calls.txt") {
		method, target, _ := strings.Cut(call.request, " ")
		target, _, _ = strings.Cut(target, "?")
		status, rest, _ := strings.Cut(call.answer, " ")
		text, _, _ := strings.Cut(rest, "\n")
		path := pathOf(s, target)
		var response struct {
			Content map[string]struct{ Schema schemaSpec }
		}
		described, err := json.Marshal(s.Paths[path][strings.ToLower(method)].Responses[status])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(described, &response); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		content, ok := response.Content["application/json"]
		if !ok {
			t.Errorf("%s: status %s is not described", call.request, status)
			continue
		}
		var value any
		if err := json.Unmarshal(
			[]byte(strings.ReplaceAll(text, "1e400", "1")), &value,
		); err != nil {
			t.Fatalf("%s: %v", call.request, err)
		}
		answers++
		compare(t, s, call.request, content.Schema, value)
	}
	if answers < 30 {
		t.Errorf("only %d answers were compared", answers)
	}
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// pathOf finds the described path that a target is of; literal parts before parameters.
func pathOf(s spec, target string) string {
	best := ""
	for path := range s.Paths {
		form := regexp.MustCompile("^" + parameter.ReplaceAllString(path, "[^/]+") + "$")
		if form.MatchString(target) &&
			(best == "" || strings.Count(path, "{") < strings.Count(best, "{")) {
			best = path
		}
	}
	return best
}

func compare(t *testing.T, s spec, at string, x schemaSpec, value any) {
	x = s.resolve(x)
	switch v := value.(type) {
	case []any:
		if x.Items == nil && x.Type != nil {
			t.Errorf("%s: a list, described as %v", at, x.Type)
			return
		}
		for _, e := range v {
			if x.Items != nil {
				compare(t, s, at+"[]", *x.Items, e)
			}
		}
	case map[string]any:
		if x.Properties == nil {
			return // labels, contexts
		}
		for _, name := range x.Required {
			if _, ok := v[name]; !ok {
				t.Errorf("%s.%s is missing", at, name)
			}
		}
		for name, e := range v {
			p, ok := x.Properties[name]
			if !ok {
				t.Errorf("%s.%s is not described", at, name)
				continue
			}
			compare(t, s, at+"."+name, p, e)
		}
	case nil:
		if types, ok := x.Type.([]any); x.Type != nil && (!ok || !slices.Contains(types, "null")) {
			t.Errorf("%s is null, described as %v", at, x.Type)
		}
	}
}

// BenchmarkNew is what each start of a node pays.
func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newAPI(b, newFake(), nil)
	}
}
