package wire

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
