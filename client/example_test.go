package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// server stands for a rota server.
func server() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"tasks":[{"id":"000000000000110","existing":false}]}`)
	})
	mux.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"000000000000110","queue":"mail","state":"done","result":"sent"}`)
	})
	mux.HandleFunc("GET /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"items":[{"id":"000000000000110","queue":"mail","state":%q}],"next":""}`,
			r.FormValue("state"))
	})
	mux.HandleFunc("POST /v1/tasks/cancel", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"matched":3,"changed":0}`)
	})
	mux.HandleFunc("PUT /v1/queues/mail", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"name":"mail","timeout":"1m0s","max_attempts":5}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"status":404,"title":"Not Found","detail":"no such thing"}`)
	})
	return httptest.NewServer(mux)
}

func Example() {
	s := server()
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	receipts, err := c.Submit(ctx,
		task.Submission{Queue: "mail", Context: []byte(`{"to":"ann"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	view, err := c.Task(ctx, receipts[0].ID, 30*time.Second) // waits for the end
	fmt.Println(view.State, string(view.Result), err)
	// Output: done "sent" <nil>
}

func ExampleClient_Tasks() {
	s := server()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for cursor := ""; ; {
		tasks, next, err := c.Tasks(context.Background(),
			client.TaskFilter{Queue: "mail", State: task.Dead}, cursor, 100)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, t := range tasks {
			fmt.Println(t.ID, t.State)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	// Output: 000000000000110 dead
}

func ExampleClient_CancelAll() {
	s := server()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	n, err := c.CancelAll(context.Background(), client.TaskFilter{Queue: "mail"},
		client.Bulk{DryRun: true})
	fmt.Println(n.Matched, n.Changed, err)
	// Output: 3 0 <nil>
}

func ExampleClient_PutQueue() {
	s := server()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	timeout := time.Minute
	queue, err := c.PutQueue(context.Background(), "mail", client.QueueChange{Timeout: &timeout})
	fmt.Println(queue.Name, queue.Timeout, queue.MaxAttempts, err)
	// Output: mail 1m0s 5 <nil>
}

func ExampleError() {
	s := server()
	defer s.Close()
	c, err := client.New(client.Config{Servers: []string{s.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	err = c.Retry(context.Background(), task.ID{Batch: 1})
	fmt.Println(errors.Is(err, client.ErrNotFound), err)
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refusal.Status, refusal.Denied()) // denied: a token is missing, or wrong
	}
	// Output:
	// true retry task 000000000000110: 404 no such thing
	// 404 false
}
