package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

func Example() {
	body := wire.AppendSubmissions(nil,
		[]task.Submission{{Queue: "files", Context: json.RawMessage(`{"path": "/etc/hosts"}`)}})
	fmt.Println(string(body))

	subs, err := wire.ParseSubmissions(body)
	fmt.Println(len(subs), string(subs[0].Context), err)
	// Output:
	// {"tasks":[{"queue":"files","context":{"path": "/etc/hosts"}}]}
	// 1 {"path": "/etc/hosts"} <nil>
}

func ExampleError() {
	_, err := wire.ParseSubmissions([]byte(`{"tasks":[{"queue":"a"},{"queue":7}]}`))
	var fault *wire.Error
	if errors.As(err, &fault) {
		fmt.Println(fault.Fields[0].Location)
		fmt.Println(fault.Fields[0].Message)
	}
	// Output:
	// body.tasks[1].queue
	// expected a string
}

func ExampleStrict() {
	var body struct {
		From string `json:"from"`
	}
	fmt.Println(wire.Strict([]byte(`{"form":"2026-11-21"}`), &body))
	// Output: body.form: unknown field; known are from
}
