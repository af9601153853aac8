package api

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const hookSecret store.Secret = "s3cret-0123456789"

// hooked are the fakes' hooks.
var hooked = []store.Hook{
	{Name: "builds", Scheme: "github", Queue: "mail", Stage: "new", Priority: time.Minute,
		GroupKey: "/repo", Headers: []string{"X-GitHub-Event"}, Meta: map[string]string{"a": "b"},
		Secrets: []store.Secret{hookSecret, "s3cret-older-one"}},
	{Name: "pay", Scheme: "stripe", Tolerance: 5 * time.Minute, Signal: "paid", Key: "/order",
		Keep: time.Hour, Secrets: []store.Secret{hookSecret}},
	{Name: "talk", Scheme: "slack", Tolerance: 5 * time.Minute, Queue: "mail",
		Secrets: []store.Secret{hookSecret}},
}

func (f *fake) PutHook(_ context.Context, h store.Hook) (store.Changed[store.Hook], error) {
	hook.Complete(&h)
	i := slices.IndexFunc(hooked, func(old store.Hook) bool { return old.Name == h.Name })
	if i >= 0 {
		h.Secrets = hook.Kept(&hooked[i], &h)
	}
	var texts []string
	for _, s := range h.Secrets {
		texts = append(texts, string(s))
	}
	return store.Changed[store.Hook]{Is: h, Created: i < 0},
		f.change("put hook %s %s %s%s %q", h.Name, h.Scheme, h.Queue, h.Signal, texts)
}

func (f *fake) Hooks(context.Context) ([]store.Hook, error) { return slices.Clone(hooked), f.err }

func (f *fake) DeleteHook(_ context.Context, name string) error {
	if _, err := f.FindHook(name); err != nil {
		return err
	}
	return f.change("delete hook %s", name)
}

func (f *fake) FindHook(name string) (*store.Hook, error) {
	if f.err != nil {
		return nil, f.err
	}
	for i := range hooked {
		if hooked[i].Name == name {
			return &hooked[i], nil
		}
	}
	return nil, fmt.Errorf("hook %q: %w", name, store.ErrNotFound)
}

// taker is an engine that takes tasks, and knows their keys.
type taker struct {
	*fake
	mu    sync.Mutex
	tasks []task.Submission
	fails error
	dies  bool // once, when it has stored and before it answers
}

func (e *taker) Submit(_ context.Context, tasks []task.Submission) ([]task.Receipt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails != nil {
		return nil, e.fails
	}
	for i := range e.tasks {
		if e.tasks[i].Key == tasks[0].Key {
			return []task.Receipt{{ID: idOf(int32(i)), Existing: true}}, nil
		}
	}
	e.tasks = append(e.tasks, tasks...)
	if e.dies {
		e.dies = false
		return nil, store.ErrUnknown
	}
	return []task.Receipt{{ID: idOf(int32(len(e.tasks) - 1))}}, nil
}
