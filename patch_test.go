package rota

import (
	"reflect"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// TestPutAtTheStartUndoesNothingThatAnOperatorDid: a program says at every start what it needs;
// between two of them an operator has paused things and set others.
func TestPutAtTheStartUndoesNothingThatAnOperatorDid(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	operator, err := client.New(client.Config{Servers: []string{"http://" + n.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	ctx := t.Context()
	boot := func() {
		t.Helper()
		if _, err := n.PutQueue(
			ctx, "q", client.QueueChange{Timeout: new(time.Minute)},
		); err != nil {
			t.Fatal(err)
		}
		if _, err := n.PutSchedule(
			ctx, "s", client.ScheduleChange{Cron: new("0 3 * * *"), Queue: new("q")},
		); err != nil {
			t.Fatal(err)
		}
		if _, err := n.PutGroup(ctx, "g", client.GroupChange{Replicas: new(2)}); err != nil {
			t.Fatal(err)
		}
	}
	boot()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(operator.PauseQueue(ctx, "q"))
	must(second(operator.PutQueue(ctx, "q",
		client.QueueChange{MaxAttempts: new(9), Retry: &client.RetryChange{Jitter: new(0.0)}})))
	must(operator.PauseSchedule(ctx, "s"))
	must(second(operator.PutSchedule(ctx, "s",
		client.ScheduleChange{
			Overlap: new(task.OverlapSkip),
			Next:    new(time.Now().Add(48 * time.Hour).Truncate(time.Hour)),
		})))
	must(operator.PauseGroup(ctx, "g"))
	must(second(operator.PutGroup(ctx, "g", client.GroupChange{Spread: new(task.SpreadWorker)})))
	stand := func() (q client.Queue, s client.Schedule, g client.Group) {
		t.Helper()
		for _, err := range []error{read(&q)(operator.Queue(ctx, "q")),
			read(&s)(operator.Schedule(ctx, "s")), read(&g)(operator.Group(ctx, "g"))} {
			must(err)
		}
		return q, s, g
	}
	q, s, g := stand()
	if !q.Paused || q.MaxAttempts != 9 || q.Timeout != time.Minute || !s.Paused ||
		s.Overlap != task.OverlapSkip || !s.NextChosen || !g.Paused || g.Replicas != 2 {
		t.Fatalf("the operator set %+v, %+v, %+v", q, s, g)
	}
	boot()
	q2, s2, g2 := stand()
	if !reflect.DeepEqual(q.Queue, q2.Queue) || !reflect.DeepEqual(s.Schedule, s2.Schedule) ||
		!s.Next.Equal(s2.Next) || !reflect.DeepEqual(g.Group, g2.Group) {
		t.Errorf("after the next start they are\n%+v\n%+v\n%+v\nand were\n%+v\n%+v\n%+v", q2, s2,
			g2, q, s, g)
	}
	// what is given changes
	must(second(n.PutQueue(ctx, "q", client.QueueChange{MaxAttempts: new(4)})))
	if q, _, _ := stand(); q.MaxAttempts != 4 || !q.Paused {
		t.Errorf("it is %+v", q)
	}
	must(n.ResumeQueue(ctx, "q"))
	if q, _, _ := stand(); q.Paused {
		t.Error("the queue is paused still")
	}
}

// read keeps a value and passes the error on.
func read[T any](to *T) func(T, error) error {
	return func(v T, err error) error {
		*to = v
		return err
	}
}
