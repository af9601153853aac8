package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// parsers are the messages by name, each as a function that only tells the error.
var parsers = map[string]func([]byte) error{
	"submissions": func(b []byte) error { _, err := ParseSubmissions(b); return err },
	"receipts":    func(b []byte) error { _, err := ParseReceipts(b); return err },
	"hold":        func(b []byte) error { _, err := ParseHold(b); return err },
	"handouts":    func(b []byte) error { _, err := ParseHandouts(b); return err },
	"reports":     func(b []byte) error { _, _, err := ParseReports(b); return err },
	"answers":     func(b []byte) error { _, err := ParseAnswers(b); return err },
	"beat":        func(b []byte) error { _, err := ParseBeat(b); return err },
	"beat answer": func(b []byte) error { _, err := ParseBeatAnswer(b); return err },
	"lines":       func(b []byte) error { _, err := ParseLines(b); return err },
	"strict":      func(b []byte) error { return Strict(b, new(strictBody)) },
}

const (
	goodID    = "1000000000000" + "10" // batch 1<<60
	goodToken = "1.1.0.1"
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

func TestIntegersAreDigitsInRange(t *testing.T) {
	for text, want := range map[string]string{
		"0": "", "-0": "", "1": "", "-1": "", "9223372036854775807": "", "-9223372036854775808": "",
		"9223372036854775808":  "must be -9223372036854775808 to 9223372036854775807",
		"-9223372036854775809": "must be -9223372036854775808 to 9223372036854775807",
		"1.5":                  "expected an integer, in digits only",
		"1.0":                  "expected an integer, in digits only",
		"1e3":                  "expected an integer, in digits only",
		"1E400":                "expected an integer, in digits only",
	} {
		got := ""
		var fault *Error
		if errors.As(parsers["submissions"]([]byte(`{"tasks":[{"max_attempts":`+text+`}]}`)),
			&fault) {
			got = fault.Fields[0].Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
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

func TestOpaqueValuesAreKeptByteForByte(t *testing.T) {
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for _, context := range []string{
		`{}`, `[]`, `""`, `0`, `true`, `false`, `9007199254740993`, `1e400`, `-0.0E-00`, `"\ud800"`,
		`"\u0000"`, `{"a":1,"a":2}`,
		`{ "a" : [ 1 ,` + "\r\n\t" + `{} ] }`, "\"\u2028\"", `{"":{"":[[],[{}]]}}`,
		`[{"a":1},[1,2],{"a":1,"b":2}]`, `"é\/\u00e9"`, deep,
	} {
		subs, err := ParseSubmissions([]byte("{\"tasks\":[{\"context\": \n" + context + "\t}]}"))
		if err != nil || string(subs[0].Context) != context {
			t.Errorf("context %.60s: %v, got %.60v", context, err, subs)
		}
		_, reports, err := ParseReports([]byte(`{"worker":"w","reports":[{"context":` + context +
			`,"result":` + context + `}]}`))
		if err != nil || string(reports[0].Context) != context ||
			string(reports[0].Result) != context {
			t.Errorf("report %.60s: %v, got %.60v", context, err, reports)
		}
	}
}

func TestNullAndAbsentContextsAreNil(t *testing.T) {
	subs, err := ParseSubmissions([]byte(`{"tasks":[{"context":null},{}]}`))
	if err != nil || subs[0].Context != nil || subs[1].Context != nil {
		t.Errorf("%v, %v: want two nil contexts", subs, err)
	}
}

func TestEveryTimeIsReadForItself(t *testing.T) {
	at := time.Date(2026, 11, 21, 13, 40, 1, 234e6, time.UTC)
	var want []task.Submission
	for _, due := range []time.Time{at, at, at.Add(time.Millisecond), at, {}, at.Add(-time.Hour)} {
		want = append(want, task.Submission{Due: due})
	}
	got, err := ParseSubmissions(AppendSubmissions(nil, want))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// An append to a context must not run into the rest of the body.
func TestContextsEndWhereTheyEnd(t *testing.T) {
	body := []byte(`{"tasks":[{"context":{},"queue":"a"}]}`)
	subs, err := ParseSubmissions(body)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(subs[0].Context, "xxxxxxxx"...)
	if string(body) != `{"tasks":[{"context":{},"queue":"a"}]}` {
		t.Errorf("body became %s", body)
	}
}

func TestEscapesInOwnStringsAreDecoded(t *testing.T) {
	subs, err := ParseSubmissions(
		[]byte(`{"tasks":[{"st\u0061ge":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\uD83D\uDE00é"}]}`),
	)
	if want := "\"\\/\b\f\n\r\té😀😀é"; err != nil || subs[0].Stage != want {
		t.Errorf("%v, %v, want stage %q", subs, err, want)
	}
}

func TestAnswersMayHaveMoreFieldsAndRequestsMayNot(t *testing.T) {
	for _, test := range []struct{ parser, body string }{
		{"receipts",
			`{"new":{"a":[1]},"tasks":[{"new":null,"id":"` + goodID + `","existing":true}]}`},
		{"handouts", `{"tasks":[{"id":"` + goodID + `","token":"t","new":"x"}],"new":1}`},
		{"answers", `{"results":[{"new":[],"id":"x","status":"odd"}],"new":false}`},
		{"beat answer", `{"tasks":[{"id":"` + goodID + `","action":"odd","new":0}],"new":{}}`},
	} {
		if err := parsers[test.parser]([]byte(test.body)); err != nil {
			t.Errorf("%s: %v", test.parser, err)
		}
	}
	for _, test := range []struct{ parser, body string }{
		{"submissions", `{"tasks":[],"new":1}`},
		{"hold", `{"worker":"","queues":[],"new":1}`},
		{"reports", `{"worker":"","reports":[],"new":1}`},
		{"beat", `{"incarnation":"","new":1}`},
		{"lines", `{"text":"","new":1}`},
	} {
		if err := parsers[test.parser]([]byte(test.body)); err == nil {
			t.Errorf("%s accepts an unknown field", test.parser)
		}
	}
}

func TestOneBadReportNeverSpoilsTheOthers(t *testing.T) {
	report := func(more string) string {
		return `{"id":"` + goodID + `","token":"` + goodToken + `",` + more + `}`
	}
	bodies := map[string]string{
		`{"id":"nope","token":"` + goodToken + `","outcome":"done"}`: `id: "nope" is not a task id`,
		`{}`: `id: "" is not a task id`,
		`{"id":"` + goodID +
			`","token":"x","outcome":"done"}`: `token: "x" is not a hand-out token`,
		`{"id":"` + goodID + `","outcome":"done"}`:                                 `token: "" is not a hand-out token`,
		report(`"outcome":"won"`):                                                  "outcome: must be done, next, retry, snooze, fail or release",
		report(`"outcome":"lost"`):                                                 "outcome: must be done, next, retry, snooze, fail or release",
		report(`"outcome":"next"`):                                                 "stage: next needs the stage that follows",
		report(`"outcome":"retry","delay":"soon"`):                                 `delay: must be a duration like "1m30s"`,
		report(`"outcome":"retry","delay":"-1s"`):                                  "delay: must be 0 to 100 years",
		report(`"outcome":"retry","hold_key":"soon"`):                              `hold_key: must be a duration like "1m30s"`,
		report(`"outcome":"retry","hold_key":"25h"`):                               "hold_key: must be 1ms to 24h0m0s",
		report(`"outcome":"retry","hold_key":"-1s"`):                               "hold_key: must be 1ms to 24h0m0s",
		report(`"outcome":"snooze","delay":"1s","hold_key":"1s"`):                  "hold_key: goes with retry only",
		report(`"outcome":"retry","hold_key":"1s","await":{"signal":"x"}`):         "await: only next waits",
		report(`"outcome":"done","delay":"1s"`):                                    "delay: only next, retry and snooze take a delay",
		report(`"outcome":"retry","result":1`):                                     "result: only done and fail keep a result",
		report(`"outcome":"done","result":null`):                                   "",
		report(`"outcome":"next","stage":"s","await":"signal"`):                    `await: must be "children", or an object with a signal or children`,
		report(`"outcome":"next","stage":"s","await":{"children":""}`):             "await.children: must be all or first_dead",
		report(`"outcome":"next","stage":"s","await":{"children":"some"}`):         "await.children: must be all or first_dead",
		report(`"outcome":"next","stage":"s","await":"children","when":"first"`):   "when: must be all or first_dead",
		report(`"outcome":"next","stage":"s","when":"all"`):                        `when: goes with "await": "children"`,
		report(`"outcome":"next","stage":"s","when":"all","await":{"signal":"x"}`): `when: goes with "await": "children"`,
		report(`"outcome":"retry","spawn":[{"queue":"q"}]`):                        "spawn: only done and next submit children",
	}
	for bad, want := range bodies {
		worker, reports, err := ParseReports([]byte(`{"worker":"w","reports":[` +
			report(`"outcome":"done"`) + `,` + bad + `]}`))
		switch {
		case err != nil || worker != "w" || len(reports) != 2:
			t.Errorf("%s: %v", bad, err)
		case reports[0].Invalid != "" || reports[0].IDText != goodID ||
			reports[0].Kind != task.KindDone || reports[0].Token != goodToken:
			t.Errorf("%s: the good report became %+v", bad, reports[0])
		case reports[1].Invalid != want:
			t.Errorf("%s: %q, want %q", bad, reports[1].Invalid, want)
		}
	}
}

func TestAnswersEchoIdsThatAreNone(t *testing.T) {
	body := AppendAnswers(nil,
		[]Answer{{"\"\x01nope", task.Invalid, "id: bad", nil}, {goodID, task.Recorded, "", nil}})
	if want := `{"results":[{"id":"\"\u0001nope","status":"invalid","detail":"id: bad"},{"id":"` +
		goodID + `","status":"recorded"}]}`; string(body) != want {
		t.Errorf("got %s\nwant %s", body, want)
	}
	answers, err := ParseAnswers(body)
	want := []task.Answer{
		{Status: task.Invalid, Detail: "id: bad"},
		{ID: task.ID{Batch: 1 << 60}, Status: task.Recorded},
	}
	if diff := cmp.Diff(want, answers); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// The bodies as the OpenAPI document draws them.
func TestTextsAreThoseOfTheAPI(t *testing.T) {
	at := time.Date(2026, 11, 21, 13, 40, 1, 234_567_890, time.FixedZone("", 3600))
	id := task.ID{Batch: 1 << 60, N: 33}
	for _, test := range []struct {
		got  []byte
		want string
	}{
		{AppendSubmissions(nil, nil), `{"tasks":[]}`},
		{AppendSubmissions(nil, []task.Submission{{Queue: "q"}, {
			Queue: "q", Stage: "s", Context: json.RawMessage(`{"a": 1}`),
			Priority: 90 * time.Second, Due: at, Delay: time.Millisecond,
			Key: "k", KeyFor: time.Hour, GroupKey: "g", MaxAttempts: 3, Timeout: time.Minute,
			StartWithin: 30 * time.Second, Meta: map[string]string{"b": `"`, "a": ""},
			Unique:     &task.Unique{Key: "one", While: task.WhileWaiting, For: time.Hour},
			OnExisting: task.OnExistingReplace,
		}}), `{"tasks":[{"queue":"q"},{"queue":"q","stage":"s","context":{"a": 1},"priority":"1m30s","due":"2026-11-21T12:40:01.234Z",` +
			`"delay":"1ms","key":"k","key_for":"1h0m0s","group_key":"g","max_attempts":3,"timeout":"1m0s","start_within":"30s",` +
			`"unique":{"key":"one","while":"waiting","for":"1h0m0s"},"on_existing":"replace","meta":{"a":"","b":"\""}}]}`},
		{AppendReceipts(nil, []task.Receipt{{ID: id, Action: task.SubmittedCreated},
			{ID: id, Existing: true, Action: task.SubmittedKept}}),
			`{"tasks":[{"id":"1000000000000211","existing":false,"action":"created"},` +
				`{"id":"1000000000000211","existing":true,"action":"kept"}]}`},
		{AppendHold(nil,
			task.HoldRequest{Worker: "w", Queues: []string{"a", "b"}, Limit: 7, Wait: time.Minute}),
			`{"worker":"w","queues":["a","b"],"limit":7,"wait":"1m0s"}`},
		{AppendHandouts(nil, task.HoldAnswer{PollInterval: 10 * time.Second}),
			`{"tasks":[],"poll_interval":"10s"}`},
		{AppendHandouts(nil,
			task.HoldAnswer{Tasks: []task.Handout{{ID: id, Queue: "q",
				Context: json.RawMessage(`[ ]`), Attempt: 1,
				Meta:  map[string]string{"b": `"`, "a": ""},
				Token: "1.2.3.4", Deadline: at}}}),
			`{"tasks":[{"id":"1000000000000211","queue":"q","stage":"","context":[ ],"meta":{"a":"","b":"\""},"attempt":1,` +
				`"token":"1.2.3.4","deadline":"2026-11-21T12:40:01.234Z"}],"poll_interval":"0s"}`},
		{AppendHandouts(nil, task.HoldAnswer{Tasks: []task.Handout{
			{ID: id, Queue: "q", Attempt: 1, Token: "t", Deadline: at, Signal: &task.Signal{
				Name: "paid", Payload: json.RawMessage(`{"euro": 7}`), By: "ann", At: at,
			}},
			{ID: id, Queue: "q", Attempt: 1, Token: "t", Deadline: at, TimedOut: true},
		}}),
			`{"tasks":[{"id":"1000000000000211","queue":"q","stage":"","context":null,` +
				`"signal":{"name":"paid","payload":{"euro": 7},"by":"ann","at":"2026-11-21T12:40:01.234Z"},` +
				`"attempt":1,"token":"t","deadline":"2026-11-21T12:40:01.234Z"},` +
				`{"id":"1000000000000211","queue":"q","stage":"","context":null,"timed_out":true,` +
				`"attempt":1,"token":"t","deadline":"2026-11-21T12:40:01.234Z"}],"poll_interval":"0s"}`},
		{AppendHandouts(nil, task.HoldAnswer{Tasks: []task.Handout{{
			ID: id, Queue: "q", Attempt: 1, Token: "t", Deadline: at, Parent: id,
			Children: &task.Children{Total: 15, Done: 9, Dead: 3, Cancelled: 2, Expired: 1},
		}}}),
			`{"tasks":[{"id":"1000000000000211","queue":"q","stage":"","context":null,` +
				`"children":{"total":15,"done":9,"dead":3,"cancelled":2,"expired":1},` +
				`"attempt":1,"token":"t","deadline":"2026-11-21T12:40:01.234Z","parent":"1000000000000211"}],"poll_interval":"0s"}`},
		{AppendSubmissions(nil, []task.Submission{{Queue: "q", Ref: "a"},
			{Queue: "q", Ref: "b", After: []string{"a", goodID}, If: task.IfEnded}}),
			`{"tasks":[{"queue":"q","ref":"a"},{"queue":"q","ref":"b","after":["a","` + goodID +
				`"],"if":"ended"}]}`},
		{AppendHandouts(nil, task.HoldAnswer{Tasks: []task.Handout{{
			ID: id, Queue: "q", Attempt: 1, Token: "t", Deadline: at, After: []task.Prior{
				{ID: id, Ref: "a", If: task.IfDone, State: task.Done,
					Context: json.RawMessage(`[ ]`), Result: json.RawMessage(`7`)},
				{ID: id, If: task.IfEnded, State: task.Dead, LeftOut: true},
			},
		}}}),
			`{"tasks":[{"id":"1000000000000211","queue":"q","stage":"","context":null,` +
				`"after":[{"state":"done","id":"1000000000000211","ref":"a","if":"done",` +
				`"context":[ ],"result":7},{"state":"dead","id":"1000000000000211",` +
				`"if":"ended","left_out":true}],"attempt":1,"token":"t",` +
				`"deadline":"2026-11-21T12:40:01.234Z"}],"poll_interval":"0s"}`},
		{AppendReports(nil, "w", []task.Report{
			{ID: id, Token: "t", Outcome: task.Finish(nil).Spawning(
				task.Submission{Queue: "a", Key: "k"}, task.Submission{Queue: "b", Orphan: true})},
			{ID: id, Token: "t", Outcome: task.NextOn(task.Await{
				Children: task.FirstDead, Timeout: time.Hour, Else: "late",
			}, "s", nil)},
		}),
			`{"worker":"w","reports":[{"id":"1000000000000211","token":"t","outcome":"done",` +
				`"spawn":[{"queue":"a","key":"k"},{"queue":"b","orphan":true}]},` +
				`{"id":"1000000000000211","token":"t","outcome":"next","stage":"s",` +
				`"await":{"children":"first_dead","timeout":"1h0m0s","else":"late"}}]}`},
		{AppendReports(nil, "w", []task.Report{
			{ID: id, Token: "t", Outcome: task.Retry(nil).HoldingKey(time.Minute)},
			{ID: id, Token: "t", Outcome: task.Finish(nil).HoldingKey(time.Minute)},
		}),
			`{"worker":"w","reports":[{"id":"1000000000000211","token":"t","outcome":"retry","hold_key":"1m0s"},` +
				`{"id":"1000000000000211","token":"t","outcome":"done"}]}`},
		{AppendAnswers(nil, []Answer{{goodID, task.Repeated, "", []task.ID{id, id}}}),
			`{"results":[{"id":"` + goodID +
				`","status":"repeated","spawned":["1000000000000211","1000000000000211"]}]}`},
		{AppendAdding(nil, &Adding{"w", "t", []task.Submission{{Queue: "q"}}}),
			`{"worker":"w","token":"t","tasks":[{"queue":"q"}]}`},
		{AppendReports(nil, "w", []task.Report{
			{ID: id, Token: "t", Outcome: task.NextOn(task.Await{Signal: "paid"}, "s", nil)},
			{ID: id, Token: "t", Outcome: task.NextOn(task.Await{
				Signal: "paid", Key: "7", Timeout: time.Hour, Else: "remind",
			}, "s", nil)},
		}),
			`{"worker":"w","reports":[{"id":"1000000000000211","token":"t","outcome":"next","stage":"s","await":{"signal":"paid"}},` +
				`{"id":"1000000000000211","token":"t","outcome":"next","stage":"s",` +
				`"await":{"signal":"paid","key":"7","timeout":"1h0m0s","else":"remind"}}]}`},
		{AppendReports(nil, "w",
			[]task.Report{{ID: id, Token: "t", Outcome: task.Next("s", json.RawMessage(`1`))},
				{ID: id, Token: "t", Outcome: task.RetryAfter(time.Second, errors.New("no\n"))},
				{ID: id, Token: "t", Outcome: task.Finish(nil), Committed: true}}),
			`{"worker":"w","reports":[{"id":"1000000000000211","token":"t","outcome":"next","stage":"s","context":1},` +
				`{"id":"1000000000000211","token":"t","outcome":"retry","delay":"1s","error":"no\n"},` +
				`{"id":"1000000000000211","token":"t","outcome":"done","committed":true}]}`},
		{AppendBeat(nil, task.Beat{Worker: "w", Incarnation: "i", Capacity: 8}),
			`{"incarnation":"i","capacity":8,"tasks":[]}`},
		{AppendBeat(nil,
			task.Beat{Incarnation: "i", Capacity: 0.5,
				Labels: map[string]string{"b": "2", "a": "1"}, Zone: "z", Build: "2.1",
				Load: task.Load{CPU: 0.25}, Groups: []string{"g"},
				Tasks: []task.Held{
					{ID: id, Token: "t"}, {ID: id, Token: "t", Progress: 0.5, Note: "n"},
				},
				Jobs: []task.Run{{Group: "g", Job: "j", Replica: 1, Token: "1.2",
					State: task.JobFailed, Error: "no"},
					{Group: "g", Job: "k", Token: "x", Alive: at}},
				Leaving: true}),
			`{"incarnation":"i","capacity":0.5,"labels":{"a":"1","b":"2"},"zone":"z","version":"2.1","load":{"cpu":0.25,"memory":0},"groups":["g"],` +
				`"tasks":[{"id":"1000000000000211","token":"t"},{"id":"1000000000000211","token":"t","progress":0.5,"note":"n"}],` +
				`"jobs":[{"group":"g","job":"j","replica":1,"token":"1.2","state":"failed","error":"no"},{"group":"g","job":"k","replica":0,"token":"x","alive":"2026-11-21T12:40:01.234Z"}],"leaving":true}`},
		{AppendBeatAnswer(nil,
			task.BeatAnswer{
				Version: "v", Beat: 5 * time.Second,
				Tasks: []task.HeldAction{{ID: id, Action: task.ActionCancel}},
			}),
			`{"version":"v","beat":"5s","tasks":[{"id":"1000000000000211","action":"cancel"}],"jobs":{"reset":false,"add":[],"end":[]}}`},
		{AppendBeatAnswer(nil, task.BeatAnswer{Jobs: task.Orders{Reset: true,
			Add: []task.Assignment{
				{Group: "g", Job: "j", Replica: 1, Token: task.JobToken{Number: 33, Seal: 2},
					Load: 2500, Spec: json.RawMessage(`[ 1 ]`)},
			},
			End:     []task.Run{{Group: "g", Job: "k", Token: "any"}},
			Silence: 30 * time.Second, Signs: true}}),
			`{"version":"","beat":"0s","tasks":[],"jobs":{"reset":true,"add":[{"group":"g","job":"j","replica":1,"token":"11.2","load":2.5,"spec":[ 1 ]}],` +
				`"end":[{"group":"g","job":"k","replica":0,"token":"any"}],"silence":"30s","signs":true}}`},
		{AppendLines(nil,
			[]task.LogLine{{Time: at, Stream: "stdout", Text: "a\tb"}, {Stream: "x"}}),
			`{"time":"2026-11-21T12:40:01.234Z","stream":"stdout","text":"a\tb"}` + "\n" +
				`{"stream":"x","text":""}` + "\n"},
	} {
		if string(test.got) != test.want {
			t.Errorf("got  %s\nwant %s", test.got, test.want)
		}
	}
}

func TestStrangeTextIsWrittenSoThatItCanBeRead(t *testing.T) {
	body := AppendLines(nil,
		[]task.LogLine{{Stream: "stdout", Text: "\x00a\xff\"\\\x1b[0m\u2028\r😀\xed\xa0\x80"}})
	lines, err := ParseLines(body)
	if want := "\uFFFDa\uFFFD\"\\\x1b[0m\u2028\r😀\uFFFD\uFFFD\uFFFD"; err != nil ||
		lines[0].Text != want {
		t.Errorf("%v, %+q, want %+q", err, lines, want)
	}
}

func TestEqualStringsOfOneMessageAreOneString(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit float64 // of allocations; a hundred tasks each
		parse func([]byte) error
		body  []byte
	}{
		{"submissions", 3, parsers["submissions"], AppendSubmissions(nil, benchSubmissions())},
		{"handouts", 5, parsers["handouts"], AppendHandouts(nil, benchHandouts())},
		{"reports", 5, parsers["reports"], AppendReports(nil, "w", benchReports())},
	} {
		if got := testing.AllocsPerRun(10, func() { _ = test.parse(test.body) }); got > test.limit {
			t.Errorf("%s: %v allocations, want at most %v", test.name, got, test.limit)
		}
	}
}

// A short body must not make a parser reserve much, whatever it promises.
func TestMemoryFollowsTheBody(t *testing.T) {
	body := []byte(`{"tasks":[{},{"context":"` + strings.Repeat("x", 1<<20) + `"}]}`)
	subs, err := ParseSubmissions(body)
	if err != nil || len(subs) != 2 || cap(subs) > 2*task.MaxSubmissions {
		t.Errorf("%d submissions in room for %d, %v", len(subs), cap(subs), err)
	}
	small := []byte(`{"tasks":[{},{"queue":"q"}]}`)
	if subs, err = ParseSubmissions(small); err != nil || cap(subs) > 8 {
		t.Errorf("room for %d submissions in %d bytes, %v", cap(subs), len(small), err)
	}
}
