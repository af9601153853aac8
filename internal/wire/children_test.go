package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rotahq/rota/task"
)

func TestChildrenAreAwaitedInTwoForms(t *testing.T) {
	for text, want := range map[string]task.Await{
		`"await":"children"`:                                 {Children: task.AllChildren},
		`"await":"children","when":"all"`:                    {Children: task.AllChildren},
		`"when":"first_dead","await":"children"`:             {Children: task.FirstDead},
		`"await":{"children":"first_dead","timeout":"1m0s"}`: {Children: task.FirstDead, Timeout: 6e10},
		`"await":{"children":"all"},"when":"all"`:            {Children: task.AllChildren},
	} {
		body := `{"worker":"w","reports":[{"id":"` + goodID + `","token":"` + goodToken +
			`","outcome":"next","stage":"s",` + text + `}]}`
		_, reports, err := ParseReports([]byte(body))
		if err != nil || reports[0].Invalid != "" || !reflect.DeepEqual(*reports[0].Await, want) {
			t.Errorf("%s: %v %+v", text, err, reports)
		}
	}
}

func TestWhatIsWrongWithAChildHasItsPlace(t *testing.T) {
	for body, want := range map[string]string{
		`{"worker":"w","reports":[{"spawn":[{},{"queue":7}]}]}`: "body.reports[0].spawn[1].queue: expected a string",
		`{"worker":"w","reports":[{"spawn":[{"delay":"x"}]}]}`:  `body.reports[0].spawn[0].delay: must be a duration like "1m30s"`,
		`{"worker":"w","reports":[{"spawn":{}}]}`:               "body.reports[0].spawn: expected a list",
	} {
		if _, _, err := ParseReports([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for body, want := range map[string]string{
		`{"worker":"w","token":"t","tasks":[{"quue":""}]}`: "body.tasks[0].quue: unknown field",
		`{"token":"t","tasks":[]}`:                         "body: worker is missing",
		`{"worker":"w","tasks":[]}`:                        "body: token is missing",
		`{"worker":"w","token":"t"}`:                       "body: tasks is missing",
	} {
		_, err := ParseAdding([]byte(body))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// All children of a call together are as many as a submission may have, and what is made of a body
// is bounded by it: each list begins before the rest of the body.
func TestChildrenOfACallAreBounded(t *testing.T) {
	report := `{"spawn":[{"queue":"q"}` + strings.Repeat(`,{"queue":"q"}`, 99) + `]},`
	body := []byte(`{"worker":"w","reports":[` + strings.Repeat(report, 100) + `{}]}`)
	if _, reports, err := ParseReports(body); err != nil || len(reports[99].Spawn) != 100 {
		t.Errorf("%v", err)
	}
	body = bytes.Replace(body, []byte(`{}]}`), []byte(`{"spawn":[{"queue":"q"}]}]}`), 1)
	want := "body.reports[100].spawn: more than 10000 children in one call"
	if _, _, err := ParseReports(body); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	many := []byte(`{"worker":"w","reports":[{"spawn":[{}]}` +
		strings.Repeat(`,{"spawn":[{}]}`, 5000) + `]}`)
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, _, err := ParseReports(many); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > 100*int64(len(many)) {
		t.Errorf("%d bytes of memory for a body of %d", got, len(many))
	}
}

func TestPartsOfAReportAreReadAlone(t *testing.T) {
	subs, err := ParseSpawn([]byte(` [{"queue":"q","orphan":true}] `))
	if err != nil || len(subs) != 1 || !subs[0].Orphan {
		t.Errorf("%v %+v", err, subs)
	}
	_, err = ParseSpawn([]byte(`[{"queue":"q"},{"due":"x"}]`))
	if err == nil || !strings.HasPrefix(err.Error(), "spawn[1].due: ") {
		t.Errorf("%v", err)
	}
	first := "first_dead"
	a, err := ParseAwait([]byte(`"children"`), &first)
	if err != nil || a.Children != task.FirstDead {
		t.Errorf("%v %+v", err, a)
	}
	for text, want := range map[string]string{
		`"signal"`:           `await: must be "children", or an object with a signal or children`,
		`{"signal":7}`:       "await.signal: expected a string",
		`{"signal":"x"}`:     `when: goes with "await": "children"`,
		`{"children":"all"}`: "when: await.children says all",
		`{"timeout":"x"}`:    `await.timeout: must be a duration like "1m30s"`,
	} {
		if _, err := ParseAwait([]byte(text), &first); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
