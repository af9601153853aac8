package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

func ExampleClient_Nodes() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	must(c.Healthy(ctx)) // a node answers
	r, err := c.Ready(ctx)
	must(err)
	fmt.Println(r.Ready) // and takes work

	nodes, err := c.Nodes(ctx)
	must(err)
	fmt.Println(nodes[0].Name, nodes[0].State)
	cluster, err := c.Cluster(ctx)
	must(err)
	fmt.Println(cluster.Working, cluster.Budget.Nodes) // a node alone can't spare any

	err = c.DrainNode(ctx, "example", false) // it is the last one: that must be meant
	fmt.Println(err != nil)
	must(c.DrainNode(ctx, "example", true))
	must(c.UndrainNode(ctx, "example"))
	// Output:
	// true
	// example working
	// 1 0
	// true
}

func ExampleClient_Overview() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.Submit(ctx, task.Submission{Queue: "mail"})
	must(err)
	o, err := c.Overview(ctx)
	must(err)
	fmt.Println(o.Node, o.Ready, o.OldestReady.Queue, o.Workers.Active)
	// Output: example 1 mail 0
}

func ExampleClient_FollowOverview() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	for o, err := range c.FollowOverview(ctx) {
		must(err)
		if o.Ready > 0 {
			fmt.Println(o.Queues[0].Queue, o.Queues[0].Ready)
			return
		}
		_, err := c.Submit(ctx, task.Submission{Queue: "mail"})
		must(err)
	}
	// Output: mail 1
}

// Each schedule, group and chore is looked after by one node, which claims its key.
func ExampleClient_Claims() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutSchedule(ctx, "nightly", client.ScheduleChange{
		Cron: new("30 2 * * *"), Queue: new("reports"),
	})
	must(err)
	must(c.RescanClaims(ctx)) // look for keys now rather than within the next seconds
	const key = "schedule/nightly"
	for {
		claims, err := c.Claims(ctx, client.ClaimFilter{})
		must(err)
		for _, claim := range claims {
			if claim.Key == key && claim.Owner != "" {
				fmt.Println(claim.Key, claim.Owner)
				must(c.ReleaseClaim(ctx, key)) // another node may take it; this one may again
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Output: schedule/nightly example
}

func ExampleClient_Workers() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	// a worker that lives
	_, err := c.Beat(ctx, task.Beat{Worker: "w1", Incarnation: "1", Capacity: 4})
	must(err)
	workers, missing, err := c.Workers(ctx) // missing: nodes that did not answer
	must(err)
	fmt.Println(workers[0].Name, workers[0].Capacity, len(missing))

	effect, err := c.DrainWorker(ctx, "w1") // gets nothing new
	must(err)
	fmt.Printf("%q\n", effect) // it serves no group
	w, err := c.Worker(ctx, "w1")
	must(err)
	fmt.Println(w.Draining)
	must(c.UndrainWorker(ctx, "w1"))
	must(c.DeleteWorker(ctx, "w1")) // forget it; one that lives comes back with its next beat
	// Output:
	// w1 4 0
	// ""
	// true
}

func ExampleClient_DrainWorkerWith() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	// a worker that lives
	_, err := c.Beat(ctx, task.Beat{Worker: "w1", Incarnation: "1", Capacity: 4})
	must(err)

	// what would it cost to have three of its units free, and how is it then?
	price, err := c.DrainWorkerWith(ctx, "w1", client.WorkerDrain{Shed: 3, DryRun: true})
	must(err)
	fmt.Println(price.Moves, price.Tasks, price.Minutes, price.Breaks)
	_, err = c.DrainWorkerWith(ctx, "w1", client.WorkerDrain{Shed: 3, Within: 10 * time.Minute})
	must(err)
	w, err := c.Worker(ctx, "w1")
	must(err)
	fmt.Println(w.State, w.Shed, "of", w.Capacity)
	must(c.UndrainWorker(ctx, "w1"))
	// Output:
	// 0 0 0 []
	// active 3 of 4
}

func ExampleClient_FollowEvents() {
	c, shut := open()
	defer shut()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	since := time.Now().Add(-time.Minute)
	_, err := c.PutQueue(ctx, "mail", client.QueueChange{MaxAttempts: new(5)})
	must(err)
	filter := client.EventFilter{Since: since, Kinds: []string{"audit.queue.*"}}
	for e, err := range c.FollowEvents(ctx, filter, "") { // as they come
		must(err)
		fmt.Println(e.Kind, e.Subject)
		break
	}
	events, _, err := c.Events(ctx, filter, "", 100) // those that stand
	must(err)
	fmt.Println(len(events))
	// Output:
	// audit.queue.put mail
	// 1
}

func ExampleClient_PutNotifier() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("posted:", r.Header.Get("Content-Type"))
	}))
	defer chat.Close()

	_, err := c.PutNotifier(ctx, "ops", client.NotifierConf{
		Kind: "webhook", On: []string{"node.*"}, URL: chat.URL,
	})
	must(err)
	must(c.TestNotifier(ctx, "ops"))
	all, err := c.Notifiers(ctx)
	must(err)
	n, err := c.Notifier(ctx, all[0].Name)
	must(err)
	fmt.Println(n.Name, n.On)
	must(c.DeleteNotifier(ctx, "ops"))
	// Output:
	// posted: application/json; charset=utf-8
	// ops [node.*]
}

func ExampleClient_AssignClaim() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	_, err := c.PutSchedule(ctx, "nightly", client.ScheduleChange{
		Cron: new("30 2 * * *"), Queue: new("reports"),
	})
	must(err)
	const key = "schedule/nightly"
	for {
		mine, err := c.Claims(ctx, client.ClaimFilter{Owner: "example", Kind: "schedule"})
		must(err)
		if len(mine) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(c.SetRebalance(ctx, "manual")) // a person decides who has what
	must(c.AssignClaim(ctx, key, "example", client.ClaimAssignment{For: time.Hour}))
	claim, err := c.ClaimOf(ctx, key)
	must(err)
	fmt.Println(claim.Key, "was given to", claim.Assigned.Node)
	_, err = c.ReleaseNode(ctx, "example", client.Shedding{Count: 1})
	fmt.Println("what was given to a node stays there:", err == nil)
	// Output:
	// schedule/nightly was given to example
	// what was given to a node stays there: true
}

func ExampleClient_PutHook() {
	c, shut := open()
	defer shut()
	ctx := context.Background()
	h, err := c.PutHook(ctx, "builds", client.HookConf{
		Scheme: "github", Secrets: []string{"It's a Secret to Everybody"}, Queue: "builds",
		GroupKey: "/repository/full_name",
	})
	must(err)
	fmt.Println(h.Name, "knows", h.Secrets, "secret")

	push := client.HookCall{ // as GitHub makes it, and makes it again when no answer comes
		Secret: "It's a Secret to Everybody", ID: "72d3162e",
		Body:   []byte(`{"repository":{"full_name":"ann/site"}}`),
		Header: map[string]string{"X-GitHub-Event": "push"},
	}
	first, err := c.CallHook(ctx, "builds", push)
	must(err)
	again, err := c.CallHook(ctx, "builds", push)
	must(err)
	fmt.Println("one task:", again.ID == first.ID, again.Existing)
	t, err := c.Task(ctx, first.ID, 0)
	must(err)
	fmt.Println(t.GroupKey, string(t.Context))

	all, err := c.Hooks(ctx)
	must(err)
	h, err = c.Hook(ctx, all[0].Name)
	must(err)
	must(c.DeleteHook(ctx, h.Name))
	_, err = c.CallHook(ctx, h.Name, push)
	fmt.Println("it is gone:", err != nil)
	// Output:
	// builds knows 1 secret
	// one task: true true
	// ann/site {"hook":"builds","id":"72d3162e","headers":{"Content-Type":"application/json","X-GitHub-Event":"push"},"body":{"repository":{"full_name":"ann/site"}}}
	// it is gone: true
}
