package rota

import (
	"context"
	"fmt"
	"strings"

	"github.com/rotahq/rota/internal/outbox"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
)

// schedulerEvents writes down what the scheduler has to tell for all nodes.
type schedulerEvents struct{ *outbox.Outbox }

// Tell writes events down before it returns. That a node came, or left in order, that node tells
// itself.
func (o schedulerEvents) Tell(ctx context.Context, list ...scheduler.Event) error {
	var events []store.Event
	for _, e := range list {
		if e.Kind == scheduler.NodeJoined || e.Kind == scheduler.NodeLeft {
			continue
		}
		about := "the cluster"
		if e.Node != "" {
			about = "node " + e.Node
		}
		events = append(events, store.Event{
			Key: e.Key, Kind: strings.Replace(e.Kind, "_", ".", 1), Subject: e.Node,
			Text: fmt.Sprintf("%s: %s", about, e.Detail),
		})
	}
	return o.Write(ctx, events...)
}

// checkedChores are the store's chores. The outbox learns from each check whether the store has
// room.
type checkedChores struct {
	scheduler.Chores
	outbox *outbox.Outbox
}

// Check implements scheduler.Chores.
func (c checkedChores) Check(ctx context.Context) error {
	err := c.Chores.Check(ctx)
	c.outbox.Checked(err)
	return err
}
