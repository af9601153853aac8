package api

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/view"
)

const about = `Rota shares out work: tasks go in, many workers take them up, and nothing is lost when machines die.

Times are RFC 3339 in UTC, durations as Go writes them ("1m30s"; "2d" is read, too), ids and tokens strings. Every refusal is a problem document
(RFC 9457) that names the places that are wrong; a refused call changed nothing, unless its "outcome" is "unknown". 503 comes with
Retry-After.`

func humaConfig(version string) huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Rota", Version: version, Description: about, License: &huma.License{
					Name: "Apache-2.0", Identifier: "Apache-2.0",
				},
			},
			Components: &huma.Components{
				Schemas: schemas(),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer",
						Description: "a token from the node's token file; a node without one needs none"},
				},
			},
			Security: []map[string][]string{{"token": {}}, {}},
			// in this order
			Tags: []*huma.Tag{
				{Name: "Overview"}, {Name: "Tasks"}, {Name: "Work"}, {Name: "Queues"}, {Name: "Schedules"},
				{Name: "Workers"}, {Name: "Groups"}, {Name: "Cluster"}, {Name: "Events"},
				{Name: "Hooks"}, {Name: "Node"},
			},
		},
		Formats: map[string]huma.Format{
			// json is what huma reads in problem+json
			"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat,
		},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{ownProblem},
	}
}

// schemas is the empty registry of the document's schemas. Types of package view keep the names
// that they have always had there, for programs that are generated from it.
func schemas() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", schemaNames(map[string]string{
		"Node": "NodeItem", "Strike": "NodeStrike", "Claim": "ClaimItem",
		"Cluster": "ClusterOut", "Budget": "ClusterBudget", "Chore": "ChoreItem",
		"Event": "EventItem", "Notifier": "NotifierItem", "Hook": "HookItem",
		"Fire": "FireItem", "Backfilled": "BackfillOut", "Audit": "AuditOut",
		"Preview": "PreviewOut", "Calendar": "CalendarItem",
	}))
	r.RegisterTypeAlias(reflect.TypeFor[view.Time](), reflect.TypeFor[instant]())
	r.RegisterTypeAlias(reflect.TypeFor[view.Duration](), reflect.TypeFor[duration]())
	r.RegisterTypeAlias(reflect.TypeFor[view.TaskID](), reflect.TypeFor[string]())
	return r
}

// schemaNames gives types their names in the document: those of the map, by the name of the type,
// and their lists theirs; all others keep their own.
func schemaNames(known map[string]string) func(reflect.Type, string) string {
	return func(t reflect.Type, hint string) string {
		name := huma.DefaultSchemaNamer(t, hint)
		if of, ok := strings.CutPrefix(name, "List"); ok && known[of] != "" {
			return "List" + known[of]
		}
		return cmp.Or(known[name], name)
	}
}

// described is a call with a body, or with an answer that huma does not write: an operation as the
// document shows it.
type described struct {
	op       huma.Operation
	status   int
	body     any // a value of the type that the body has; nil = none
	bodyType string
	optional bool   // the body may be left out
	example  string // of the body
	answer   any    // a value of the type that the answer has
	also     map[int]any
}

// anID is the task of all examples.
const anID = "1jwrrkvpcj00713"

// pathExamples are what examples put into paths.
var pathExamples = map[string]any{
	"id": anID, "queue": "mail", "worker": "w1", "node": "n1", "name": "ops", "group": "tails",
	"job": "access.log", "calendar": "de", "key": "customer-7",
}

func pathParameter(name, doc string) *huma.Param {
	return &huma.Param{
		Name: name, In: "path", Required: true, Description: doc,
		Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{pathExamples[name]}},
	}
}

func queryParameter(name, doc string, like, example any) *huma.Param {
	schema := &huma.Schema{Type: huma.TypeString}
	if p, ok := like.(huma.SchemaProvider); ok {
		schema = p.Schema(nil)
	}
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: schema, Example: example}
}

// described registers a plain call and describes it.
func (a *API) described(d described, handler func(*answer, *http.Request) error) {
	op := d.op
	op.Responses = a.answers(d.status, d.answer)
	for status, v := range d.also {
		maps.Copy(op.Responses, a.answers(status, v))
	}
	a.refusals(&op)
	if d.body != nil {
		kind := d.bodyType
		if kind == "" {
			kind = "application/json"
		}
		op.RequestBody = &huma.RequestBody{Required: !d.optional,
			Content: map[string]*huma.MediaType{kind: {
				Schema: a.schema(d.body), Example: json.RawMessage(d.example),
			}}}
	}
	a.huma.OpenAPI().AddOperation(&op)
	a.plain(op.Method+" "+op.Path, handler)
}

func (a *API) schema(v any) *huma.Schema {
	return a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// answers describes an answer.
func (a *API) answers(status int, v any) map[string]*huma.Response {
	return map[string]*huma.Response{strconv.Itoa(status): {
		Description: http.StatusText(status), Content: map[string]*huma.MediaType{
			"application/json": {Schema: a.schema(v)},
		},
	}}
}

// refusals describes what every call may answer instead.
func (a *API) refusals(op *huma.Operation) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "why the call was refused", Content: map[string]*huma.MediaType{
			problemType: {Schema: a.schema(problem{})},
		},
	}
}

// finishDocument is called when all calls are registered, and answers who writes the OpenAPI
// document, once somebody asks for it. Bodies are closed, answers are open: fields may be added to
// them.
func (a *API) finishDocument() (write func() ([]byte, error)) {
	document := a.huma.OpenAPI()
	schemas := document.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's own problems, which ownProblem turns into ours
	delete(schemas, "ErrorDetail")
	asked := map[string]bool{}
	for _, path := range document.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Put, path.Patch,
			path.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, content := range op.RequestBody.Content {
				closed(content.Schema, schemas, asked)
			}
		}
	}
	for name, s := range schemas {
		if !asked[name] && s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
	}
	return sync.OnceValues(func() ([]byte, error) { return json.Marshal(document) })
}

// closed notes the schemas that a body is made of.
func closed(s *huma.Schema, all map[string]*huma.Schema, asked map[string]bool) {
	name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
	if s.Ref != "" && !asked[name] {
		asked[name] = true
		closed(all[name], all, asked)
	}
	for _, p := range s.Properties {
		closed(p, all, asked)
	}
	for _, p := range s.OneOf {
		closed(p, all, asked)
	}
	if s.Items != nil {
		closed(s.Items, all, asked)
	}
}
