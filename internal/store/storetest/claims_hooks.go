package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/rotahq/rota/internal/store"
)

// hookClaims is what holds for the hooks.
func hookClaims() []claim {
	return []claim{
		{"HooksComeBackWithTheirSecrets", func(s *scene) {
			for _, name := range []string{"b", "a"} {
				s.putHook(hook(name), true)
			}
			s.want("hooks", s.hooks(), []store.Hook{hook("a"), hook("b")})
			changed := store.Hook{
				Name: "a", Scheme: "github", Signal: "merged", Key: "/number", Keep: time.Hour,
				Secrets: []store.Secret{"☃", "\x00'\""},
			}
			s.putHook(changed, false)
			s.want("hooks", s.hooks(), []store.Hook{changed, hook("b")})
			s.ok(s.DeleteHook(s.ctx, "a"))
			s.wantErr("delete it again", s.DeleteHook(s.ctx, "a"), store.ErrNotFound)
			s.want("hooks", s.hooks(), []store.Hook{hook("b")})
		}},
	}
}

func hook(name string) store.Hook {
	return store.Hook{
		Name: name, Scheme: "plain", Header: "X-Mac", Prefix: "sha256=", ID: "/event/id",
		Tolerance: time.Minute, Headers: []string{"X-Topic", "X-Shop"},
		Queue: "orders", Stage: "'\" ☃", Priority: time.Second, GroupKey: "/customer",
		Meta: map[string]string{"from": "shop"}, Secrets: []store.Secret{"new", "old"},
	}
}

func (s *scene) putHook(h store.Hook, created bool) {
	got, err := s.ChangeHook(s.ctx, h.Name, store.Whole(h))
	s.ok(err)
	s.want("answer to a change of hook "+h.Name, got, store.Changed[store.Hook]{
		Is: h, Created: created,
	})
}

func (s *scene) hooks() []store.Hook {
	list, err := s.Hooks(s.ctx)
	s.ok(err)
	return list
}

// hook changes or deletes a hook. It takes no luck from other steps: they stay what they were.
func (w *walk) hook() {
	n := len(w.lines)
	name := []string{"h", "k"}[n/2%2]
	switch n % 3 {
	case 0:
		changed, err := w.ChangeHook(w.ctx, name, func(h *store.Hook, _ bool) error {
			// the queue is what stood
			h.Queue, h.Stage = fmt.Sprintf("%q", texts(h.Secrets)), fmt.Sprint(n)
			h.Secrets = slices.Concat([]store.Secret{store.Secret(fmt.Sprint(n))}, h.Secrets)
			h.Secrets = h.Secrets[:min(len(h.Secrets), 3)]
			if n%5 == 0 {
				return store.ErrConflict
			}
			return nil
		})
		w.note("change hook %s -> created %v queue %s %s", name, changed.Created, changed.Is.Queue,
			w.told(err))
	case 1:
		if n%4 == 1 {
			w.note("delete hook %s -> %s", name, w.told(w.DeleteHook(w.ctx, name)))
		}
	}
	list, err := w.Hooks(w.ctx)
	var told []string
	for i := range list {
		told = append(told, fmt.Sprintf("%s %s %q", list[i].Name, list[i].Stage,
			texts(list[i].Secrets)))
	}
	w.note("hooks -> %v %s", told, w.told(err))
}

func texts(secrets []store.Secret) []string {
	list := make([]string, len(secrets))
	for i, s := range secrets {
		list[i] = string(s)
	}
	return list
}
