package rota

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/inprocess"
	"github.com/rotahq/rota/task"
)

// A node does what a client does, by the same calls: those of its own hide the client's only with
// the same arguments and answers, Close included.
func TestANodeHasEachCallOfAClientAsTheClientHasIt(t *testing.T) {
	of, node := reflect.TypeFor[*client.Client](), reflect.TypeFor[*Node]()
	for m := range of.Methods() {
		at, ok := node.MethodByName(m.Name)
		if !ok {
			t.Errorf("a node has no %s", m.Name)
		} else if want, got := plain(m), plain(at); want != got {
			t.Errorf("%s of a node is %s, of a client %s", m.Name, got, want)
		}
	}
}

// plain is a method's type without its receiver.
func plain(m reflect.Method) string {
	_, rest, _ := strings.Cut(m.Type.String(), ",")
	return rest
}

// calls answers every call with 404, and notes which operation of the API's document it was.
type calls struct {
	mux    *http.ServeMux
	opened chan struct{} // closed when a stream is asked for, which a client does beside its calls

	mu   sync.Mutex
	made map[string]bool // by operation
}

func (c *calls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := c.mux.Handler(r)
	c.mu.Lock()
	if pattern == "GET /v1/stream" && !c.made[pattern] {
		close(c.opened)
	}
	c.made[pattern] = true
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusNotFound)
	w.Write([]byte(`{"title":"Not Found","detail":"there is nothing"}`))
}

// The document of the API is walked: each of its operations is what some call of a client makes.
func TestAClientHasACallForEachOperationOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("internal/api/testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	all := &calls{
		mux: http.NewServeMux(), opened: make(chan struct{}), made: map[string]bool{},
	}
	operations := map[string]string{}
	for path, methods := range document.Paths {
		for method, is := range methods {
			pattern := strings.ToUpper(method) + " " + path
			operations[pattern] = is.OperationID
			all.mux.Handle(pattern, http.NotFoundHandler())
		}
	}
	c, err := client.New(client.Config{
		Servers: []string{"http://anywhere"}, Fixed: true, Attempts: 1,
		HTTP: &http.Client{Transport: inprocess.New(all)}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(c)
	for m := range v.Type().Methods() {
		if m.Name != "Close" {
			for _, got := range v.Method(m.Index).Call(someArguments(t, v.Method(m.Index).Type())) {
				if got.Kind() == reflect.Func { // a sequence, which asks when it is read
					got.Call(someArguments(t, got.Type()))
				}
			}
		}
	}
	// this verb makes another call when it names a task
	c.Signal(t.Context(), task.SignalRequest{Task: task.ID{Batch: 1}, Name: "x"})
	select {
	case <-all.opened:
	case <-time.After(time.Minute):
	}
	c.Close()
	// CallHook makes this call when it has read how the hook is signed: see its example
	all.made["POST /v1/hooks/{name}"] = true
	for pattern, id := range operations {
		if !all.made[pattern] {
			t.Errorf("no call of a client makes %s (%s)", pattern, id)
		}
	}
}

// someArguments are arguments with which a call is worth a request.
func someArguments(t *testing.T, f reflect.Type) []reflect.Value {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	args := make([]reflect.Value, 0, f.NumIn())
	for i := range f.NumIn() {
		in := f.In(i)
		if f.IsVariadic() && i == f.NumIn()-1 {
			in = in.Elem()
		}
		args = append(args, some(ctx, in))
	}
	return args
}

// some is a value of a type that looks like one in use.
func some(ctx context.Context, in reflect.Type) reflect.Value {
	switch v := reflect.New(in).Elem(); in.Kind() {
	case reflect.Interface: // a context, or something that is not asked for much
		if reflect.TypeOf(ctx).Implements(in) {
			v.Set(reflect.ValueOf(ctx))
		}
		return v
	case reflect.String:
		v.SetString("x")
		return v
	case reflect.Slice:
		return reflect.Append(v, some(ctx, in.Elem()))
	case reflect.Func:
		return reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
			out := make([]reflect.Value, in.NumOut())
			for i := range out {
				out[i] = reflect.Zero(in.Out(i))
			}
			return out
		})
	case reflect.Struct:
		if in == reflect.TypeFor[task.ID]() {
			return reflect.ValueOf(task.ID{Batch: 1 << 40})
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() && v.Field(i).Kind() == reflect.String {
				v.Field(i).SetString("x")
			}
		}
		return v
	default:
		return v
	}
}
