package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func TestBadInputIsRefusedWithItsPlaceAndWhatWouldBeRight(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	for _, test := range []struct {
		parser, body, location, message string
	}{
		// JSON
		{"submissions", ``, "body", "at byte 0: ends too early"},
		{"submissions", ` `, "body", "at byte 1: ends too early"},
		{"submissions", `null`, "body", "expected an object"},
		{"submissions", `[]`, "body", "expected an object"},
		{"submissions", `x`, "body", "at byte 0: expected a value"},
		{"submissions", "\ufeff{}", "body", "at byte 0: expected a value"},
		{"submissions", `{"tasks":[]} x`, "body", "at byte 13: expected nothing behind the value"},
		{"submissions", "{\"tasks\":[]}\x00", "body",
			"at byte 12: expected nothing behind the value"},
		{"submissions", `{"tasks":[]}{"tasks":[]}`, "body",
			"at byte 12: expected nothing behind the value"},
		{"submissions", `{"tasks":[}`, "body.tasks[0]", "at byte 10: expected a value"},
		{"submissions", `{"tasks":[{}`, "body.tasks[0]", "at byte 12: ends too early"},
		{"submissions", `{"tasks":[{},]}`, "body.tasks[1]", "at byte 13: expected a value"},
		{"submissions", `{"tasks":[{}{}]}`, "body.tasks[0]", "at byte 12: expected , or ]"},
		{"submissions", `{"tasks":[],}`, "body", "at byte 12: expected a name in quotes"},
		{"submissions", `{"tasks" []}`, "body.tasks", "at byte 9: expected :"},
		{"submissions", `{"tasks":[]`, "body.tasks", "at byte 11: ends too early"},
		{"submissions", `{tasks:[]}`, "body", "at byte 1: expected a name in quotes"},
		{"submissions", `{"tasks":[{"queue":"a" "stage":"b"}]}`, "body.tasks[0].queue",
			"at byte 23: expected , or }"},
		{"submissions", `{"tasks":[{"queue":"a}]}`, "body.tasks[0].queue",
			"at byte 24: ends too early"},
		{"submissions", `{"`, "body", "at byte 2: ends too early"},
		{"submissions", `{"tasks":[{"queue":'a'}]}`, "body.tasks[0].queue",
			"at byte 19: expected a value"},
		// strings
		{"submissions", "{\"tasks\":[{\"queue\":\"a\xff\"}]}", "body.tasks[0].queue",
			"at byte 21: not valid UTF-8"},
		{"submissions", "{\"\xff\"", "body", "at byte 2: not valid UTF-8"},
		{"submissions", "{\"tasks\":[{\"context\":\"\xed\xa0\x80\"}]}", "body.tasks[0].context",
			"at byte 22: not valid UTF-8"},
		{"submissions", "{\"tasks\":[{\"queue\":\"a\x00b\"}]}", "body.tasks[0].queue",
			"at byte 21: character U+0000 must be escaped in a string"},
		{"submissions", "{\"tasks\":[{\"context\":\"a\nb\"}]}", "body.tasks[0].context",
			"at byte 23: character U+000A must be escaped in a string"},
		{"submissions", `{"tasks":[{"stage":"\u0000"}]}`, "body.tasks[0].stage",
			"must not contain NUL"},
		{"submissions", `{"tasks":[{"stage":"\ud800"}]}`, "body.tasks[0].stage",
			"half a surrogate pair"},
		{"submissions", `{"tasks":[{"stage":"\ud800\n"}]}`, "body.tasks[0].stage",
			"half a surrogate pair"},
		{"submissions", `{"tasks":[{"stage":"\ud800\u0041"}]}`, "body.tasks[0].stage",
			"half a surrogate pair"},
		{"submissions", `{"tasks":[{"stage":"\udc00\ud800"}]}`, "body.tasks[0].stage",
			"half a surrogate pair"},
		{"submissions", `{"tasks":[{"stage":"\q"}]}`, "body.tasks[0].stage",
			"at byte 21: no such escape"},
		{"submissions", `{"tasks":[{"stage":"\u12g4"}]}`, "body.tasks[0].stage",
			`at byte 21: expected four hex digits behind \u`},
		{"submissions", `{"tasks":[{"stage":"\u12`, "body.tasks[0].stage",
			`at byte 21: expected four hex digits behind \u`},
		{"submissions", `{"tasks":[{"stage":"\`, "body.tasks[0].stage",
			"at byte 21: ends too early"},
		// names
		{"submissions", `{}`, "body", "tasks is missing"},
		{"submissions", `{"tasks":[],"tasks":[]}`, "body.tasks", "comes twice"},
		{"submissions", `{"tasks":[],"t\u0061sks":[]}`, `body."t\\u0061sks"`, "comes twice"},
		{"submissions", `{"tasks":[{"queue":"a","queue":"a"}]}`, "body.tasks[0].queue",
			"comes twice"},
		{"submissions", `{"tasks":[{"stage":"a","queue":"a","stage":"a"}]}`, "body.tasks[0].stage",
			"comes twice"},
		{"submissions", `{"tasks":[{"queue":"a"},{"quue":"b"}]}`, "body.tasks[1].quue",
			"unknown field; known are queue, stage, context, priority, due, delay, key, key_for, group_key, max_attempts, timeout, meta, start_within, unique, on_existing, orphan, ref, after, if"},
		{"submissions", `{"Tasks":[]}`, "body.Tasks", "unknown field; known are tasks"},
		{"submissions", `{"":[]}`, `body.""`, "unknown field; known are tasks"},
		{"hold", `{"worker":"w","queues":[],"limits":3}`, "body.limits",
			"unknown field; known are worker, queues, limit, wait, ahead, incarnation"},
		{"hold", `{"queues":[]}`, "body", "worker is missing"},
		{"hold", `{"worker":"w"}`, "body", "queues is missing"},
		{"reports", `{"worker":"w"}`, "body", "reports is missing"},
		{"reports", `{"reports":[]}`, "body", "worker is missing"},
		{"reports", `{"worker":"w","reports":[{"id":"x","extra":1}]}`, "body.reports[0].extra",
			"unknown field; known are id, token, outcome, stage, context, result, delay, error, committed, await, when, spawn, hold_key"},
		{"beat", `{}`, "body", "incarnation is missing"},
		{"beat", `{"incarnation":"i","labels":{"a":"1","a":"2"}}`, "body.labels.a", "comes twice"},
		{"beat", `{"incarnation":"i","load":{"gpu":1}}`, "body.load.gpu",
			"unknown field; known are cpu, memory"},
		{"beat", `{"incarnation":"i","tasks":[{"id":"` + goodID + `"}]}`, "body.tasks[0]",
			"token is missing"},
		{"beat answer", `{"tasks":[{"id":"` + goodID + `"}]}`, "body.tasks[0]",
			"action is missing"},
		{"receipts", `{"tasks":[{}]}`, "body.tasks[0]", "id is missing"},
		{"handouts", `{"tasks":[{"id":"` + goodID + `"}]}`, "body.tasks[0]", "token is missing"},
		{"answers", `{"results":[{"id":""}]}`, "body.results[0]", "status is missing"},
		// types
		{"submissions", `{"tasks":{}}`, "body.tasks", "expected a list"},
		{"submissions", `{"tasks":null}`, "body.tasks", "expected a list"},
		{"submissions", `{"tasks":[1]}`, "body.tasks[0]", "expected an object"},
		{"submissions", `{"tasks":[{},{},{},{"queue":7}]}`, "body.tasks[3].queue",
			"expected a string"},
		{"submissions", `{"tasks":[{"queue":null}]}`, "body.tasks[0].queue", "expected a string"},
		{"submissions", `{"tasks":[{"queue":[1,}]}`, "body.tasks[0].queue[1]",
			"at byte 22: expected a value"},
		{"submissions", `{"tasks":[{"priority":30}]}`, "body.tasks[0].priority",
			`expected a duration in quotes, like "1m30s"`},
		{"submissions", `{"tasks":[{"due":1e9}]}`, "body.tasks[0].due",
			`expected a time in quotes, like "2006-01-02T15:04:05.000Z"`},
		{"submissions", `{"tasks":[{"max_attempts":"3"}]}`, "body.tasks[0].max_attempts",
			"expected an integer"},
		{"beat", `{"incarnation":"i","leaving":1}`, "body.leaving", "expected true or false"},
		{"beat", `{"incarnation":"i","capacity":"8"}`, "body.capacity", "expected a number"},
		{"beat", `{"incarnation":"i","labels":{"a":1}}`, "body.labels.a", "expected a string"},
		{"receipts", `{"tasks":[{"id":1}]}`, "body.tasks[0].id", "expected a task id in quotes"},
		{"reports", `{"worker":"w","reports":[{"delay":1}]}`, "body.reports[0].delay",
			`expected a duration in quotes, like "1m30s"`},
		// values
		{"submissions", `{"tasks":[{"priority":"30"}]}`, "body.tasks[0].priority",
			`must be a duration like "1m30s"`},
		{"submissions", `{"tasks":[{"delay":"3000000h"}]}`, "body.tasks[0].delay",
			`must be a duration like "1m30s"`},
		{"submissions", `{"tasks":[{"due":"2026-02-29T00:00:00.000Z"}]}`, "body.tasks[0].due",
			`must be a time by RFC 3339, like "2006-01-02T15:04:05.000Z"`},
		{"submissions", `{"tasks":[{"due":"2026-01-01T24:00:00.000Z"}]}`, "body.tasks[0].due",
			`must be a time by RFC 3339, like "2006-01-02T15:04:05.000Z"`},
		{"submissions", `{"tasks":[{"due":"0001-01-01T00:00:00Z"}]}`, "body.tasks[0].due",
			"must lie in the years 2000 to 2199"},
		{"hold", `{"worker":"w","queues":[],"limit":-1}`, "body.limit",
			"must not be negative; 0 = the queue's hold_limit"},
		{"hold", `{"worker":"w","queues":[],"wait":"1m0.000000001s"}`, "body.wait",
			"must be 0s to 1m0s"},
		{"hold", `{"worker":"w","queues":[],"wait":"-1ns"}`, "body.wait", "must be 0s to 1m0s"},
		{"hold", `{"worker":"w","queues":["a"` + strings.Repeat(`,"a"`, limits.MaxQueues) + `]}`,
			"body.queues", "more than 100 elements"},
		{"submissions", `{"tasks":[{}` + strings.Repeat(`,{}`, task.MaxSubmissions) + `]}`,
			"body.tasks", "more than 10000 elements"},
		{"reports", `{"worker":"w","reports":[{}` + strings.Repeat(`,{}`, limits.MaxReports) + `]}`,
			"body.reports", "more than 10000 elements"},
		{"beat", `{"incarnation":"i","capacity":1e400}`, "body.capacity", "is too large"},
		{"beat", `{"incarnation":"i","tasks":[{"id":"nope"}]}`, "body.tasks[0].id",
			"is not a task id"},
		{"beat", `{"incarnation":"i","labels":{` + manyLabels(maxLabels+1) + `}}`,
			"body.labels.l100", "more than 100 labels"},
		// opaque
		{"submissions", `{"tasks":[{"context":}]}`, "body.tasks[0].context",
			"at byte 21: expected a value"},
		{"submissions", `{"tasks":[{"context":{"a":[1,{"b":tru}]}}]}`,
			"body.tasks[0].context.a[1].b", "at byte 34: expected a value"},
		{"submissions", `{"tasks":[{"context":{"a":1]}]}`, "body.tasks[0].context.a",
			"at byte 27: expected , or }"},
		{"submissions", `{"tasks":[{"context":[1}]}`, "body.tasks[0].context[0]",
			"at byte 23: expected , or ]"},
		{"submissions", `{"tasks":[{"context":{1:2}}]}`, "body.tasks[0].context",
			"at byte 22: expected a name in quotes"},
		{"submissions", `{"tasks":[{"context":{"a" 2}}]}`, "body.tasks[0].context.a",
			"at byte 26: expected :"},
		{"submissions", `{"tasks":[{"context":01}]}`, "body.tasks[0].context",
			"at byte 22: expected , or }"},
		{"submissions", `{"tasks":[{"context":-}]}`, "body.tasks[0].context",
			"at byte 22: expected a digit"},
		{"submissions", `{"tasks":[{"context":1.}]}`, "body.tasks[0].context",
			"at byte 23: expected a digit"},
		{"submissions", `{"tasks":[{"context":1e+}]}`, "body.tasks[0].context",
			"at byte 24: expected a digit"},
		{"submissions", `{"tasks":[{"context":NaN}]}`, "body.tasks[0].context",
			"at byte 21: expected a value"},
		{"submissions", `{"tasks":[{"context":` + deep + `}]}`,
			"body.tasks[0].context" + strings.Repeat("[0]", shownDepth-3) + "…",
			"at byte 1021: nested deeper than 1000"},
		// log lines
		{"lines", `{"text":"a"}` + "\n" + `{"text":1}`, "body[1].text", "expected a string"},
		{"lines", `{"text":"a"}{"text":"b"}`, "body[0]",
			"at byte 12: expected nothing behind the value"},
		{"lines", "\n\n" + `{"stream":"stdout"}`, "body[2]", "text is missing"},
		{"lines", `{"text":` + "\n" + `"a"}`, "body[0].text", "at byte 8: ends too early"},
		{"lines", `{"text":"","stream":"` + strings.Repeat("s", MaxStream+1) + `"}`,
			"body[0].stream", "must be at most 128 bytes"},
		{"lines", strings.Repeat(`{"text":""}`+"\n", MaxLines+1), "body", "more than 10000 lines"},
	} {
		err := parsers[test.parser]([]byte(test.body))
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("%s %.80q: %v, want an *Error", test.parser, test.body, err)
			continue
		}
		if want := []task.FieldError{{Location: test.location,
			Message: test.message}}; !reflect.DeepEqual(fault.Fields, want) {
			t.Errorf("%s %.80q:\n got %+v\nwant %+v", test.parser, test.body, fault.Fields, want)
		}
	}
}

func manyLabels(n int) string {
	labels := make([]string, n)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"l%d":""`, i)
	}
	return strings.Join(labels, ",")
}

// The API answers 422 to values and 400 to everything else.
func TestOnlyFaultsOfValuesAreMarkedSo(t *testing.T) {
	for body, want := range map[string]bool{
		`{"worker":"w","queues":[],"wait":"2m"}`:          true,
		`{"worker":"w","queues":[],"wait":"soon"}`:        true,
		`{"worker":"w","queues":[],"limit":-1}`:           true,
		`{"worker":"w"}`:                                  true,
		`{"worker":"w","queues":[],"limit":1.5}`:          false,
		`{"worker":"w","queues":[],"wait":60}`:            false,
		`{"worker":"w","queues":[],"more":60}`:            false,
		`{"worker":"w","queues":[],"wait":"1s"`:           false,
		`{"worker":"w","queues":[],"more":1,"limit":-1}`:  false,
		`{"worker":1,"queues":[],"wait":"soon","more":1}`: false,
	} {
		var fault *Error
		if err := parsers["hold"]([]byte(body)); !errors.As(err, &fault) || fault.Value != want {
			t.Errorf("%s: %v, Value = %v, want %v", body, err, !want, want)
		}
	}
}
