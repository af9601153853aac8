package rota

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/task"
)

// FuzzNamesThroughEveryDoor: a name is the same behind paths, queries, bodies, lists and their
// cursors, however it was typed, and what is no name is refused by all.
func FuzzNamesThroughEveryDoor(f *testing.F) {
	for _, name := range []string{
		"mail", "邮件", "cafe\u0301", "مهام", "Очередь+1", "हिन्दी", "a:b@c+d.e-f_g", "𠮷野", "_",
		"\u1112\u1161\u11ab", "\u212b", "\u0958", "a\u202eb", "a/b", "a%2fb", "%", "..", "a b",
		"\xff", "",
	} {
		f.Add(name)
	}
	node := fuzzed(f)
	f.Fuzz(func(t *testing.T, given string) {
		ctx, name := t.Context(), names.Canonical(given)
		if !limits.ValidName(name) {
			_, err := node.Submit(ctx, task.Submission{Queue: given})
			if err == nil {
				t.Errorf("a task of queue %+q was stored", given)
			}
			return
		}
		timeout := limits.DefaultTimeout
		put, err := node.PutQueue(ctx, given, client.QueueChange{Timeout: &timeout})
		if err != nil || put.Name != name {
			t.Fatalf("put %+q: %+q, %v", given, put.Name, err)
		}
		if _, err := node.Submit(ctx, task.Submission{Queue: given, Key: "k"}); err != nil {
			t.Fatal(err)
		}
		list, err := node.Queues(ctx)
		if err != nil || !slices.ContainsFunc(list, func(q client.Queue) bool {
			return q.Name == name
		}) || !slices.IsSortedFunc(list, func(a, b client.Queue) int {
			return bytes.Compare([]byte(a.Name), []byte(b.Name))
		}) {
			t.Errorf("%+q in the list: %+v, %v", name, list, err)
		}
		if walked := walkQueues(t, node); !slices.Contains(walked, name) ||
			len(walked) != len(list) {
			t.Errorf("page by page: %+q of %d", walked, len(list))
		}
		tasks, _, err := node.Tasks(ctx, client.TaskFilter{Queue: given}, "", 9)
		if err != nil || len(tasks) != 1 || tasks[0].Queue != name {
			t.Errorf("tasks of %+q: %+v, %v", given, tasks, err)
		}
		if err := node.DeleteQueue(ctx, given, true); err != nil {
			t.Errorf("delete %+q: %v", given, err)
		}
	})
}

// fuzzed is a node for all inputs of a fuzz test.
func fuzzed(f *testing.F) *Node {
	n, err := Open(context.Background(), Config{Store: "sqlite:" + f.TempDir() + "/work.db", Name: "n"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { n.Close() })
	return n
}

// walkQueues reads the list of queues one by one, by its cursors.
func walkQueues(t *testing.T, n *Node) (walked []string) {
	door, err := n.door.open()
	if err != nil {
		t.Fatal(err)
	}
	for cursor := ""; ; {
		w := httptest.NewRecorder()
		door.Inside().ServeHTTP(w,
			httptest.NewRequest("GET", "/v1/queues?limit=1&cursor="+cursor, nil))
		var page struct {
			Items []struct{ Name string }
			Next  string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		for _, item := range page.Items {
			walked = append(walked, item.Name)
		}
		if cursor = page.Next; cursor == "" {
			return walked
		}
	}
}
