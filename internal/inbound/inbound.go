// Package inbound looks after the hooks that other programs call at a node: who may configure them
// does so in the store, for all nodes, and what is called is looked up here.
//
// A call is answered from what the node has read of the store within the last second, so that
// callers whom nobody knows cost the store a short list or two a second, however many they are. A
// change holds at once at the node that made it, and at the others within that second.
package inbound

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/observe"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

const (
	// maxHooks is how many there may be: each node has all of them in memory.
	maxHooks = 1_000
	// fresh is how old what is known of the hooks may be.
	fresh = time.Second
	// patience is how long a call waits for the list.
	patience = 2 * time.Second
)

// Store keeps hooks. See the stores' contract.
type Store interface {
	ChangeHook(ctx context.Context, name string,
		change store.Change[store.Hook]) (store.Changed[store.Hook], error)
	Hooks(context.Context) ([]store.Hook, error)
	DeleteHook(ctx context.Context, name string) error
}

// Book is the hooks as a node knows them. Its methods may be called at the same time.
type Book struct {
	store   Store
	changes atomic.Int64 // made at this node
	known   atomic.Pointer[list]
	list    *observe.Value[*list]
}

// list is the hooks as they were read.
type list struct {
	at      time.Time // when the store was asked
	changes int64     // of this node, that it has in it at least
	hooks   map[string]*store.Hook
}

// New makes a book. Close it.
func New(s Store) *Book {
	b := &Book{store: s}
	b.list = observe.New(observe.Config[*list]{Ask: b.read, Fresh: fresh, Stale: b.lacks})
	return b
}

// Close gives up what the store is being asked. Hooks are not found from then on.
func (b *Book) Close() { b.list.Close() }

func (b *Book) read(ctx context.Context) (*list, error) {
	l := &list{at: time.Now(), changes: b.changes.Load(), hooks: map[string]*store.Hook{}}
	all, err := b.store.Hooks(ctx)
	for i := range all {
		l.hooks[all[i].Name] = &all[i]
	}
	return l, err
}

// lacks tells whether a list may be without a change of this node.
func (b *Book) lacks(l *list) bool { return l.changes < b.changes.Load() }

// FindHook looks up the hook that is called; store.ErrNotFound. Nobody may change it.
func (b *Book) FindHook(name string) (*store.Hook, error) {
	l, changes := b.known.Load(), b.changes.Load()
	if l == nil || l.changes < changes || time.Since(l.at) >= fresh {
		// the question under way may be older than the last change, the one behind it is not
		for range 2 {
			got, answered := b.list.Get(patience)
			switch {
			case got.Err != nil:
				return nil, got.Err
			case !answered:
				return nil, fmt.Errorf("list hooks: %w", store.ErrBusy)
			}
			if l = got.Value; l.changes >= changes {
				break
			}
		}
		b.known.Store(l)
	}
	if h := l.hooks[name]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("hook %q: %w", name, store.ErrNotFound)
}

// PutHook creates a hook or changes it, and answers it as it stands then. Secrets that are left out
// stay as they are, as long as its scheme does; *task.InvalidError.
func (b *Book) PutHook(ctx context.Context, h store.Hook) (store.Changed[store.Hook], error) {
	hook.Complete(&h)
	if !limits.ValidName(h.Name) { // no store is asked for what can't be a name
		return store.Changed[store.Hook]{}, hook.Check(&h)
	}
	if err := b.room(ctx, h.Name); err != nil {
		return store.Changed[store.Hook]{}, err
	}
	defer b.changes.Add(1) // also when nobody knows whether it was made
	return b.store.ChangeHook(ctx, h.Name, func(is *store.Hook, stands bool) error {
		put := h
		if stands {
			put.Secrets = hook.Kept(is, &put)
		}
		*is = put
		return hook.Check(is)
	})
}

// room refuses one hook more than there may be.
func (b *Book) room(ctx context.Context, name string) error {
	all, err := b.store.Hooks(ctx)
	if err != nil || len(all) < maxHooks {
		return err
	}
	for i := range all {
		if all[i].Name == name {
			return nil
		}
	}
	var e task.InvalidError
	e.Add("path.name", "there are %d hooks already, and there may not be more", maxHooks)
	return e.Err()
}

// Hooks lists all, by name, as they stand in the store.
func (b *Book) Hooks(ctx context.Context) ([]store.Hook, error) { return b.store.Hooks(ctx) }

// DeleteHook forgets one; store.ErrNotFound.
func (b *Book) DeleteHook(ctx context.Context, name string) error {
	defer b.changes.Add(1)
	return b.store.DeleteHook(ctx, name)
}
