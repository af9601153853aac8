package client_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// groupServer stands for a rota server that looks after a group.
func groupServer() *httptest.Server {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]string{
		"PUT /v1/groups/tails":      `{"name":"tails","replicas":2,"spread":"zone","source":{"kind":"api","every":"30m0s"}}`,
		"PUT /v1/groups/tails/jobs": `{"added":2,"removed":0,"kept":1}`,
		"GET /v1/groups/tails/assignments": `{"items":[{"job":"access.log","replica":0,"worker":"w1","state":"running","since":"2026-10-01T12:00:00.000Z"},` +
			`{"job":"access.log","replica":1,"worker":"","state":"pending","since":null,"reason":"no worker has room"}],"next":""}`,
		"POST /v1/groups/tails/plan": `{"start":[{"group":"tails","job":"access.log","replica":0,"worker":"w2"}],"stop":[],"pending":[],"moves":0,"rounds":1,` +
			`"budget":{"workers":1,"exact":true,"weakest":[],"text":"any one worker can die"}}`,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, answer)
		})
	}
	return httptest.NewServer(mux)
}

func ExampleClient_PutJobs() {
	s := groupServer()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	group, err := c.PutGroup(context.Background(), "tails", client.GroupChange{Replicas: new(2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	jobs := []task.Job{
		{Name: "access.log", Load: task.Unit},
		{Name: "error.log", Load: task.Unit / 2, Spec: []byte(`{"path":"/var/log/error.log"}`)},
	}
	changed, err := c.PutJobs(context.Background(), group.Name, jobs...)
	fmt.Println(group.Replicas, changed.Added, changed.Kept, err)
	// Output: 2 2 1 <nil>
}

func ExampleClient_Assignments() {
	s := groupServer()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for r, err := range client.All(func(cursor string) ([]client.Placement, string, error) {
		return c.Assignments(
			context.Background(), "tails", client.PlacementFilter{}, cursor, 1000)
	}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Job, r.Replica, r.State, cmp.Or(r.Worker, r.Reason))
	}
	// Output:
	// access.log 0 running w1
	// access.log 1 pending no worker has room
}

func ExampleClient_PlanGroup() {
	s := groupServer()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// what if w1 died?
	plan, err := c.PlanGroup(context.Background(), "tails", client.WhatIf{Remove: []string{"w1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range plan.Start {
		fmt.Println(r.Job, r.Replica, "would start on", r.Worker)
	}
	fmt.Println("then", plan.Budget.Text)
	// Output:
	// access.log 0 would start on w2
	// then any one worker can die
}
