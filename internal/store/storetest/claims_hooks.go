package storetest

import (
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
