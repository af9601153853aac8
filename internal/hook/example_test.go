package hook_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rotahq/rota/internal/hook"
	"github.com/rotahq/rota/internal/store"
)

func Example() {
	h := &store.Hook{
		Name: "builds", Scheme: "github", Queue: "builds", GroupKey: "/repository/full_name",
		Secrets: []store.Secret{"It's a Secret to Everybody"},
	}
	hook.Complete(h)
	body := []byte(`{"repository":{"full_name":"ann/site"}}`)

	header := http.Header{} // as GitHub sends it
	header.Set("X-GitHub-Event", "push")
	signed, err := hook.Sign(h, h.Secrets[0], "72d3162e", body, time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	for name, value := range signed {
		header.Set(name, value)
	}

	request := hook.Request{Header: header.Get, Body: body}
	fmt.Println(hook.Verify(h, request, time.Now()))
	task, id, err := hook.Delivered(h, request).Task()
	fmt.Println(id, task.Queue, task.Key, task.GroupKey, err)
	fmt.Println(string(task.Context))
	// Output:
	// true
	// 72d3162e builds hook:builds/72d3162e ann/site <nil>
	// {"hook":"builds","id":"72d3162e","headers":{"X-GitHub-Event":"push"},"body":{"repository":{"full_name":"ann/site"}}}
}
