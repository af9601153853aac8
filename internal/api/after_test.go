package api

import (
	"strings"
	"testing"
)

// Who waits for a task is told what it left, so its queue has to be in the scope of whoever says
// so.
func TestTasksWaitForNoneOutsideOfTheScope(t *testing.T) {
	tokens, err := ParseTokens(strings.NewReader(`
shop submitter shop-submitter-token queues=shop
mail submitter mail-submitter-token queues=mail,shop
w2   worker    shop-worker-token    queues=mail,shop
`))
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, newFake(), func(c *Config) { c.Tokens = tokens })
	other := idOf(3).String() // of queue scan
	for token, allowed := range map[string]bool{
		"shop-submitter-token": false, "mail-submitter-token": true,
	} {
		for name, fine := range map[string]bool{
			idOf(0).String(): allowed, "other": true, idOf(500).String(): true,
		} {
			response, text := ask(t, a, "POST /v1/tasks", `{"tasks":[{"queue":"shop","ref":"other"},`+
				`{"queue":"shop","after":["`+name+`"]}]}`, "Authorization: Bearer "+token)
			if got := response.StatusCode != 403; got != fine {
				t.Errorf("%s after %s: %s", token, name, text)
			}
		}
	}
	_, text := ask(t, a, "POST /v1/tasks/report", `{"worker":"w2","reports":[{"id":"`+
		idOf(1).String()+`","token":"`+token(0)+`","outcome":"done","spawn":[{"queue":"shop",`+
		`"after":["`+other+`"]}]}]}`, "Authorization: Bearer shop-worker-token")
	if !strings.Contains(text, `"status":"invalid","detail":"spawn[0].after[0]: task `+other) {
		t.Errorf("%s", text)
	}
}
