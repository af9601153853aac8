package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rotahq/rota/task"
)

// Children are submissions: a worker's token makes them where its scope names the queue, and
// nowhere without a scope, as it would make tasks there that are trusted as submitted ones.
func TestWorkersSpawnWhereTheirTokenSays(t *testing.T) {
	tokens, err := ParseTokens(strings.NewReader(`
w1 worker   free-worker-token
w2 worker   mail-worker-token queues=mail
*  worker   any-worker-token  queues=mail
op operator scan-operator-token queues=scan
root admin  admin-token-of-root
`))
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	a := newAPI(t, f, func(c *Config) { c.Tokens = tokens })
	report := func(queue string) string {
		return `{"id":"` + idOf(1).String() + `","token":"` + token(0) +
			`","outcome":"done","spawn":[{"queue":"mail"},{"queue":"` + queue + `"}]}`
	}
	const needsLine = `spawn[0].queue: a worker submits to "mail" when the token file has a line ` +
		`for it, by name, that says queues=mail`
	for _, c := range []struct{ worker, token, queue, want string }{
		{"w1", "free-worker-token", "mail", needsLine},
		{"w2", "any-worker-token", "mail", needsLine},
		{"w2", "mail-worker-token", "mail", ""},
		{"w2", "mail-worker-token", "scan",
			`spawn[1].queue: queue "scan" is not in the scope of this token`},
		{"w3", "admin-token-of-root", "scan", ""},
	} {
		header := "Authorization: Bearer " + c.token
		_, text := ask(t, a, "POST /v1/tasks/report",
			`{"worker":"`+c.worker+`","reports":[`+report(c.queue)+`]}`, header)
		var got struct {
			Results []struct {
				Status task.Status
				Detail string
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Results) != 1 {
			t.Fatalf("%s: %v", text, err)
		}
		want := task.Recorded
		if c.want != "" {
			want = task.Invalid
		}
		if r := got.Results[0]; r.Status != want || r.Detail != c.want {
			t.Errorf("%s reports children of %s: %+v, want %s", c.worker, c.queue, r, c.want)
		}
		response, text := ask(t, a, "POST /v1/tasks/"+idOf(1).String()+"/children",
			`{"worker":"`+c.worker+`","token":"`+token(0)+`","tasks":[{"queue":"`+c.queue+`"}]}`,
			header)
		if allowed := response.StatusCode != 403; allowed != (c.want == "") {
			t.Errorf("%s adds children to %s: %s", c.worker, c.queue, text)
		}
	}
}

func TestOneReportsChildrenSpoilNoOther(t *testing.T) {
	a := newAPI(t, newFake(), nil)
	one := `{"id":"` + idOf(1).String() + `","token":"` + token(0) + `","outcome":"done"`
	_, text := ask(t, a, "POST /v1/tasks/report", `{"worker":"w1","reports":[`+
		one+`,"spawn":[{"queue":"mail"}],"result":1},`+
		one+`,"spawn":[{"queue":"mail"}],"stage":"x"},`+
		one+`,"spawn":[{"queue":"mail"},{"queue":"mail"}]}]}`)
	want := `{"results":[{"id":"` + idOf(1).String() + `","status":"recorded","spawned":["` +
		idOf(0).String() + `"]},{"id":"` + idOf(1).String() +
		`","status":"invalid","detail":"stage: only next names a stage"},{"id":"` +
		idOf(1).String() + `","status":"recorded","spawned":["` + idOf(0).String() + `","` +
		idOf(1).String() + `"]}]}`
	if text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}
