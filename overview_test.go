package rota

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// A program that embeds a node follows its overview as others do: without a network, and to the end
// of the node.
func TestNodeFollowsItsOwnOverview(t *testing.T) {
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + filepath.Join(t.TempDir(), "rota.db"), Beat: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, n)
	if _, err := n.Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last view.Overview
	for o, err := range n.FollowOverview(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if last = o; o.Ready == 1 {
			break
		}
	}
	if last.Totals.Submitted != 1 || last.OldestReady == nil || last.OldestReady.Queue != "q" {
		t.Errorf("%+v", last)
	}
	stop()
}

// Every node tells the same of the whole store, and of workers whichever node they talk to.
func TestOverviewsOfTwoNodesAreOfTheSameCluster(t *testing.T) {
	dsn := database(t)
	var nodes []*Node
	for _, name := range []string{"a", "b"} {
		n, err := Open(t.Context(), quick(name, dsn))
		if err != nil {
			t.Fatal(err)
		}
		running(t, n)
		nodes = append(nodes, n)
		c, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}, Fixed: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Beat(t.Context(), task.Beat{
			Worker: "w" + name, Incarnation: "1", Capacity: 4,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := nodes[0].Submit(t.Context(), task.Submission{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		settled(t, "node "+n.Name()+" tells of all", func() bool {
			o := overviewOf(t, n)
			return o.Ready == 1 && o.Workers.Active == 2 && len(o.Fleet) == 2 &&
				o.Fleet[0].Node == "a" && o.Fleet[1].Node == "b" && o.Capacity == 8 &&
				len(o.Nodes) == 2 && o.Totals.Submitted == 1 && len(o.Missing) == 0
		})
	}
}
