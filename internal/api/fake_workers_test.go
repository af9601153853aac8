package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func (f *fake) Workers(_ context.Context, here bool) ([]task.Worker, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if here {
		return slices.Clone(f.workers), nil, f.err
	}
	return slices.Clone(f.workers), f.missing, f.err
}

func (f *fake) worker(name string) error {
	for _, w := range f.workers {
		if w.Name == name {
			return nil
		}
	}
	return fmt.Errorf("worker %q: %w", name, store.ErrNotFound)
}

func (f *fake) DrainWorker(_ context.Context, name string, what store.Drain, here bool) error {
	if err := f.worker(name); err != nil {
		return err
	}
	return f.change("drain %s %v", name, true)
}

func (f *fake) UndrainWorker(_ context.Context, name string, here bool) error {
	if err := f.worker(name); err != nil {
		return err
	}
	return f.change("drain %s %v", name, false)
}

func (f *fake) DeleteWorker(_ context.Context, name string, here bool) error {
	if err := f.worker(name); err != nil {
		return err
	}
	return f.change("delete worker %s", name)
}
