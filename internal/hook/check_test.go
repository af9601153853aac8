package hook

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func TestWhatIsWrongWithAHookIsSaid(t *testing.T) {
	long := store.Secret(strings.Repeat("s", 16))
	right := store.Hook{Name: "h", Scheme: "github", Queue: "q", Secrets: []store.Secret{long}}
	for _, c := range []struct {
		change func(*store.Hook)
		at     string // "" = nothing is
	}{
		{func(*store.Hook) {}, ""},
		{func(h *store.Hook) { h.Scheme = "gitlab" }, "body.scheme"},
		{func(h *store.Hook) { h.Name = "a/b" }, "path.name"},
		{func(h *store.Hook) { h.Secrets = nil }, "body.secrets"},
		{func(h *store.Hook) { h.Secrets = []store.Secret{long, long + "1", long + "2"} }, ""},
		{func(h *store.Hook) {
			h.Secrets = []store.Secret{long, long + "1", long + "2", long + "3"}
		}, "body.secrets"},
		{func(h *store.Hook) { h.Secrets = []store.Secret{long, long} }, "body.secrets[1]"},
		{func(h *store.Hook) { h.Secrets = []store.Secret{long[1:]} }, "body.secrets[0]"},
		{func(h *store.Hook) { h.Scheme = Standard }, "body.secrets[0]"},
		{func(h *store.Hook) { h.Scheme, h.Secrets = Standard, []store.Secret{secret} }, ""},
		{func(h *store.Hook) { h.Scheme, h.Header = plain, "Authorization" }, ""},
		{func(h *store.Hook) { h.Scheme, h.Header = plain, "X Y" }, "body.header"},
		{func(h *store.Hook) { h.Header = "X-Y" }, "body.header"},
		{func(h *store.Hook) { h.Prefix = "x" }, "body.prefix"},
		{func(h *store.Hook) { h.Tolerance = time.Minute }, "body.tolerance"},
		{func(h *store.Hook) { h.Scheme, h.Tolerance = "slack", 25*time.Hour }, "body.tolerance"},
		{func(h *store.Hook) { h.ID = "/a~" }, "body.id"},
		{func(h *store.Hook) { h.ID = "Cookie" }, "body.id"},
		{func(h *store.Hook) { h.ID = "X-Id" }, ""},
		{func(h *store.Hook) { h.Headers = []string{"X-A", "x-a"} }, "body.headers[1]"},
		{func(h *store.Hook) { h.Headers = []string{"authorization"} }, "body.headers[0]"},
		{func(h *store.Hook) { h.Headers = []string{"Stripe-Signature"} }, "body.headers[0]"},
		{func(h *store.Hook) {
			h.Scheme, h.Header, h.Headers = plain, "X-Sig", []string{"x-sig"}
		}, "body.headers[0]"},
		{func(h *store.Hook) { h.Headers = make([]string, 17) }, "body.headers"},
		{func(h *store.Hook) { h.Queue = "" }, "body.queue"},
		{func(h *store.Hook) { h.Signal, h.Key = "s", "/k" }, "body.queue"},
		{func(h *store.Hook) { h.Queue = "a/b" }, "body.queue"},
		{func(h *store.Hook) { h.GroupKey = "k" }, "body.group_key"},
		{func(h *store.Hook) { h.Meta = map[string]string{"": "x"} }, "body.meta."},
		{func(h *store.Hook) { h.Priority = -1 }, "body.priority"},
		{func(h *store.Hook) { h.Key = "/k" }, "body.queue"},
		{func(h *store.Hook) { h.Queue, h.Signal, h.Key = "", "s", "/k" }, ""},
		{func(h *store.Hook) { h.Queue, h.Signal = "", "s" }, "body.key"},
		{func(h *store.Hook) { h.Queue, h.Signal, h.Key = "", "s/", "/k" }, "body.signal"},
		{func(h *store.Hook) { h.Queue, h.Signal, h.Key, h.Keep = "", "s", "/k", 1 }, "body.keep"},
		{func(h *store.Hook) { h.Queue, h.Signal, h.Key, h.Stage = "", "s", "/k", "x" }, "body.signal"},
	} {
		h := right
		c.change(&h)
		Complete(&h)
		err := Check(&h)
		at := ""
		if invalid, ok := errors.AsType[*task.InvalidError](err); ok {
			at = invalid.Fields[0].Location
		}
		if at != c.at {
			t.Errorf("%+v: %v, want it at %q", h, err, c.at)
		}
		if err != nil && strings.Contains(err.Error(), "sssss") {
			t.Errorf("a secret stands in %v", err)
		}
	}
}

func TestSecretsStayWhileTheSchemeDoes(t *testing.T) {
	was := &store.Hook{Scheme: "github", Secrets: []store.Secret{"old"}}
	for _, c := range []struct{ is, want store.Hook }{
		{store.Hook{Scheme: "github"}, store.Hook{Secrets: []store.Secret{"old"}}},
		{store.Hook{Scheme: "shopify"}, store.Hook{}},
		{store.Hook{Scheme: "github", Secrets: []store.Secret{"new"}},
			store.Hook{Secrets: []store.Secret{"new"}}},
	} {
		if got := Kept(was, &c.is); !reflect.DeepEqual(got, c.want.Secrets) {
			t.Errorf("%s: %d secrets", c.is.Scheme, len(got))
		}
	}
}
