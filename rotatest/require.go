package rotatest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// mostShown is how many tasks a failure shows.
const mostShown = 20

// RequireSubmitted is a task of a type that carries want (by reflect.DeepEqual, after it was read
// as its handler would): one that was handed out in the type's stage, or stands there. Without any
// the test fails, and shows those that there are.
func RequireSubmitted[A any](t testing.TB, r *Rig, typ rota.Type[A], want A) task.ID {
	t.Helper()
	found, err := r.carried(typ.Queue, typ.Stage)
	if err != nil {
		t.Fatalf("look for tasks of queue %q: %v", typ.Queue, err)
	}
	shown := make([]string, 0, len(found))
	for _, f := range found {
		args, err := typ.Decode(f.context)
		if err == nil && reflect.DeepEqual(args, want) {
			return f.id
		}
		if len(shown) < mostShown {
			shown = append(shown, fmt.Sprintf("\n\t%v carries %s", f.id, f.context))
		}
	}
	t.Fatalf("no task of queue %q, stage %q carries %+v; of %d there:%s", typ.Queue, typ.Stage,
		want,
		len(found), strings.Join(shown, ""))
	return task.ID{}
}

// carried is what a task carries, or carried, in a stage.
type carried struct {
	id      task.ID
	context json.RawMessage
}

// carried lists what tasks carried that were handed out in a stage, and what those carry that stand
// in it.
func (r *Rig) carried(queue, stage string) (list []carried, err error) {
	seen := map[task.ID]bool{}
	for _, a := range r.attempts() {
		if a.Queue == queue && a.Stage == stage {
			seen[a.ID] = true
			list = append(list, carried{a.ID, a.Context})
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	defer cancel()
	for cursor := ""; ; {
		page, next, err := r.Tasks(ctx, client.TaskFilter{Queue: queue}, cursor, 1000)
		if err != nil {
			return nil, err
		}
		for _, v := range page {
			if v.Stage != stage || seen[v.ID] {
				continue
			}
			is, err := r.Task(ctx, v.ID, 0)
			if errors.Is(err, rota.ErrNotFound) {
				continue // deleted meanwhile
			}
			if err != nil {
				return nil, err
			}
			list = append(list, carried{is.ID, is.Context})
		}
		if cursor = next; cursor == "" {
			return list, nil
		}
	}
}

// RequireOutcome fails the test unless want is what a handler said of a task last: with the same
// kind, stage, delay and error, and with the same JSON as context and result.
func RequireOutcome(t testing.TB, r *Rig, id task.ID, want rota.Outcome) {
	t.Helper()
	all := r.attempts()
	for _, a := range slices.Backward(all) {
		if a.ID != id {
			continue
		}
		if got, want := say(a.outcome), say(want); got != want {
			t.Fatalf("attempt %d of task %v, stage %q, ended as\n\t%s\nwant\n\t%s", a.Attempt, id,
				a.Stage, got, want)
		}
		return
	}
	t.Fatalf("no handler had task %v; %d tasks were handled", id, len(all))
}

// say is an outcome in words, the same for outcomes that mean the same.
func say(o task.Outcome) string {
	b := new(strings.Builder)
	b.WriteString(o.Kind.String())
	if o.Stage != "" {
		fmt.Fprintf(b, " %s", o.Stage)
	}
	if o.Delay != 0 {
		fmt.Fprintf(b, " in %v", o.Delay)
	}
	if o.HoldKey != 0 {
		fmt.Fprintf(b, " holding its key for %v", o.HoldKey)
	}
	if a := o.Await; a != nil {
		fmt.Fprintf(b, " on %s%s %q in %v else %s", a.Signal, a.Children, a.Key, a.Timeout, a.Else)
	}
	for i := range o.Spawn {
		s := &o.Spawn[i]
		fmt.Fprintf(b, " and %s %q %s %q", s.Queue, s.Stage, s.Context, s.Key)
	}
	for _, v := range []json.RawMessage{o.Context, o.Result} {
		if len(v) > 0 {
			b.WriteByte(' ')
			b.Write(plain(v))
		}
	}
	if o.Error != "" {
		fmt.Fprintf(b, " error %q", o.Error)
	}
	return b.String()
}

// plain is JSON without what means nothing: spaces, the order of names.
func plain(v json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	var is any
	if d.Decode(&is) != nil {
		return v
	}
	b, err := json.Marshal(is)
	if err != nil {
		return v
	}
	return b
}

// attempts are what handlers did up to now, in the order of their ends; those that ended at the
// same instant by task.
func (r *Rig) attempts() []attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.history)
	slices.SortStableFunc(list, func(a, b attempt) int {
		return cmp.Or(a.ended.Compare(b.ended), a.ID.Compare(b.ID))
	})
	return list
}

// Timeline is what handlers did, a line for each call: when it ended, counted from New, to the
// second; the task, as its number among those that are named; its queue and stage; the attempt; the
// outcome. In a bubble it is the same each time if handlers are.
func (r *Rig) Timeline() string {
	list := r.attempts()
	ids := make([]task.ID, 0, len(list))
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	slices.SortFunc(ids, task.ID.Compare)
	ids = slices.Compact(ids)
	b := new(strings.Builder)
	for _, a := range list {
		number, _ := slices.BinarySearchFunc(ids, a.ID, task.ID.Compare)
		fmt.Fprintf(b, "%v #%d %s", a.ended.Sub(r.began).Round(time.Second), number+1, a.Queue)
		if a.Stage != "" {
			fmt.Fprintf(b, "/%s", a.Stage)
		}
		fmt.Fprintf(b, " attempt %d: %s\n", a.Attempt, say(a.outcome))
	}
	return b.String()
}

// updates is the environment's variable with which RequireTimeline writes files.
const updates = "ROTATEST_UPDATE"

// RequireTimeline fails the test unless Timeline is what stands in a file. With ROTATEST_UPDATE=1
// in the environment it writes the file instead.
func RequireTimeline(t testing.TB, r *Rig, file string) {
	t.Helper()
	got := r.Timeline()
	if os.Getenv(updates) == "1" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v; %s=1 writes it:\n%s", err, updates, got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Fatalf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}
