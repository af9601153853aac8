package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/rotahq/rota"
	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// open starts a node, as rota serve does, and a client that speaks to it over HTTP. The examples of
// the calls share it as little as programs share a server: each has its own.
func open() (c *client.Client, shut func()) {
	dir, err := os.MkdirTemp("", "rota-example")
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	node, err := rota.Open(ctx, rota.Config{
		Store: "sqlite:" + filepath.Join(dir, "work.db"), Name: "example",
		Log:          slog.New(slog.DiscardHandler),
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	must(err)
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()
	server := httptest.NewServer(node.Handler())
	c, err = client.New(client.Config{Servers: []string{server.URL}})
	must(err)
	for !ready(ctx, c) { // claims of schedules and groups come a moment after the start
		time.Sleep(10 * time.Millisecond)
	}
	return c, func() {
		c.Close()
		server.CloseClientConnections()
		server.Close()
		stop()
		must(<-ended)
		must(os.RemoveAll(dir))
	}
}

func ready(ctx context.Context, c *client.Client) bool {
	r, err := c.Ready(ctx)
	return err == nil && r.Ready
}

// must ends the program. Yours has a better plan.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// What a worker says in a language without a worker package, call by call.
func ExampleClient_Hold() {
	c, shut := open()
	defer shut()
	ctx := context.Background()

	receipts, err := c.Submit(ctx, task.Submission{Queue: "mail", Context: []byte(`"ann"`)})
	must(err)
	held, err := c.Hold(ctx, task.HoldRequest{
		Worker: "w1", Queues: []string{"mail"}, Limit: 1, Wait: 10 * time.Second,
	})
	must(err)
	for _, t := range held.Tasks {
		fmt.Println("to do:", string(t.Context))
		must(c.Log(ctx, t.ID, []task.LogLine{
			{Time: time.Now(), Stream: "stdout", Text: "sending"},
		}))
		_, err := c.Beat(ctx, task.Beat{ // every second, lest the worker be taken for dead
			Worker: "w1", Incarnation: "1", Capacity: 1,
			Tasks: []task.Held{{ID: t.ID, Token: t.Token}},
		})
		must(err)
		answers, err := c.Report(ctx, "w1", []task.Report{
			{ID: t.ID, Token: t.Token, Outcome: task.Finish("sent")},
		})
		must(err)
		fmt.Println(answers[0].Status)
	}
	lines, _, err := c.Lines(ctx, receipts[0].ID, "", 0)
	must(err)
	fmt.Println(lines[0].Text)
	for line, err := range c.FollowLines(ctx, receipts[0].ID, "") { // until the task is final
		must(err)
		fmt.Println(line.Text)
	}
	// Output:
	// to do: "ann"
	// recorded
	// sending
	// sending
}

// Tasks that died are done again, one by one or all that a filter selects.
func ExampleClient_RetryAll() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	die := func(ids ...task.ID) { // hands them out once more, and fails them for good
		for range ids {
			held, err := c.Hold(ctx, task.HoldRequest{
				Worker: "w1", Queues: []string{"mail"}, Limit: 1, Wait: 10 * time.Second,
			})
			must(err)
			for _, t := range held.Tasks {
				_, err := c.Report(ctx, "w1", []task.Report{
					{ID: t.ID, Token: t.Token, Outcome: task.Fail(errors.New("no such address"))},
				})
				must(err)
			}
		}
	}
	mail := task.Submission{Queue: "mail", Stage: "address"}
	receipts, err := c.Submit(ctx, mail, mail)
	must(err)
	a, b := receipts[0].ID, receipts[1].ID
	die(a, b)

	must(c.Retry(ctx, a)) // its stage again
	die(a)
	must(c.Retry(ctx, a, client.Replay{Whole: true})) // from its first stage on
	die(a)
	must(c.Retry(ctx, a, client.Replay{Stage: new("address")})) // from a stage by name
	die(a)

	dead := client.TaskFilter{Queue: "mail", State: task.Dead}
	n, err := c.RetryAll(ctx, dead, client.Bulk{DryRun: true}) // what would it do?
	must(err)
	fmt.Println(n.Matched, n.Changed)
	n, err = c.RetryAll(ctx, dead, client.Bulk{Progress: func(n client.Acted) {
		fmt.Println("so far", n.Changed)
	}})
	must(err)
	fmt.Println(n.Matched, n.Changed)
	// Output:
	// 2 0
	// so far 2
	// 2 2
}

// Tasks that need not be done are cancelled; one that is final may be deleted before its queue's
// retention is over; one that is not due yet may be made due.
func ExampleClient_Cancel() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	later := task.Submission{Queue: "mail", Delay: time.Hour}
	receipts, err := c.Submit(ctx, later, later, later)
	must(err)
	now, never := receipts[0].ID, receipts[1].ID

	must(c.RunNow(ctx, now))
	v, err := c.Task(ctx, now, 0)
	must(err)
	fmt.Println(v.State)

	must(c.Cancel(ctx, never))
	v, err = c.Task(ctx, never, 0)
	must(err)
	fmt.Println(v.State)
	must(c.Delete(ctx, never))

	n, err := c.CancelAll(ctx, client.TaskFilter{Queue: "mail"}, client.Bulk{})
	must(err)
	fmt.Println(n.Changed)
	// Output:
	// ready
	// cancelled
	// 2
}

func ExampleClient_PauseKey() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutQueue(ctx, "mail", client.QueueChange{Fair: new(true)})
	must(err)
	_, err = c.Submit(ctx, task.Submission{Queue: "mail", GroupKey: "customer-7"})
	must(err)
	rule, err := c.PauseKey(ctx, "mail", "customer-7", 0) // until it is resumed
	must(err)
	fmt.Println(rule.Key, rule.Paused)
	_, err = c.WeighKey(ctx, "mail", "customer-8", 5) // its turn has five tasks
	must(err)
	keys, err := c.Keys(ctx, "mail")
	must(err)
	for _, k := range keys.Items {
		fmt.Println(k.Key, k.Ready, k.Paused, k.Weight)
	}
	rule, err = c.ResumeKey(ctx, "mail", "customer-7")
	must(err)
	fmt.Println(rule.Key, rule.Paused)
	// Output:
	// customer-7 true
	// customer-7 1 true 1
	// customer-8 0 false 5
	// customer-7 false
}

func ExampleClient_Queues() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutQueue(ctx, "mail", client.QueueChange{MaxAttempts: new(5)})
	must(err)
	must(c.PauseQueue(ctx, "mail")) // tasks wait, those that run are finished
	queues, err := c.Queues(ctx)
	must(err)
	for _, q := range queues {
		fmt.Println(q.Name, q.MaxAttempts, q.Paused)
	}
	must(c.ResumeQueue(ctx, "mail"))
	q, err := c.Queue(ctx, "mail")
	must(err)
	fmt.Println(q.Paused)
	must(c.DeleteQueue(ctx, "mail", false)) // refused while it has tasks, unless forced
	// Output:
	// mail 5 true
	// false
}

// At most 20 tasks of a queue run at a time, and at most 100 in a second begin, whichever nodes and
// workers take them.
func ExampleQueueChange() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutQueue(ctx, "mail", client.QueueChange{
		MaxRunning: new(20), Rate: &task.Rate{Count: 100, Per: time.Second}, Burst: new(20),
	})
	must(err)
	q, err := c.Queue(ctx, "mail")
	must(err)
	fmt.Println(q.MaxRunning, q.Rate, q.Burst, q.Limits.Running, q.Limits.WaitingFor.Any())
	q, err = c.PutQueue(ctx, "mail", client.QueueChange{Rate: new(task.Rate)}) // any speed again
	must(err)
	fmt.Println(q.MaxRunning, q.Rate.Count, q.Burst)
	// Output:
	// 20 100/1s 20 0 false
	// 20 0 0
}

// Of each customer one task at a time runs, and customers take turns: one who has a million tasks
// does not keep the others waiting.
func ExampleKeyLimitsChange() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	q, err := c.PutQueue(ctx, "mail", client.QueueChange{
		PerKey: &client.KeyLimitsChange{MaxRunning: new(1)}, Fair: new(true),
	})
	must(err)
	fmt.Println(q.PerKey.MaxRunning, q.Fair)
	_, err = c.Submit(ctx, task.Submission{Queue: "mail", GroupKey: "customer-7"})
	must(err)
	q, err = c.PutQueue(ctx, "mail", client.QueueChange{
		PerKey: &client.KeyLimitsChange{}, Fair: new(false), // no limits of each any more
	})
	must(err)
	fmt.Println(q.PerKey.MaxRunning, q.Fair)
	// Output:
	// 1 true
	// 0 false
}
