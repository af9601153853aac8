package walk

import (
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
)

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
