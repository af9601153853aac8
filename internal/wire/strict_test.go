package wire

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type strictBody struct {
	Name     string            `json:"name"`
	Retry    strictRetry       `json:"retry"`
	Spec     json.RawMessage   `json:"spec,omitempty"`
	Any      any               `json:"any,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Items    []strictRetry     `json:"items,omitempty"`
	When     time.Time         `json:"when"`
	Maybe    *int              `json:"maybe"`
	Small    uint8             `json:"small"`
	On       bool              `json:"on"`
	Secret   string            `json:"-"`
	Untagged string
}

type strictRetry struct {
	Factor float64 `json:"factor"`
}

func TestStrictDecodesWhatIsRight(t *testing.T) {
	body := `{"name":"n","retry":{"factor":1.5},"spec":{"a":1,"a":2},"any":{"b":1,"b":2},"labels":{"Name":"x","name":"y"},` +
		`"items":[{"factor":2},{}],"when":"2026-11-21T13:40:01.234Z","maybe":null,"small":255,"on":true,"Untagged":"u"}`
	var got strictBody
	err := Strict([]byte(body), &got)
	want := strictBody{
		Name: "n", Retry: strictRetry{1.5}, Spec: json.RawMessage(`{"a":1,"a":2}`), Any: map[string]any{"b": 2.0},
		Labels: map[string]string{"Name": "x", "name": "y"}, Items: []strictRetry{{2}, {}},
		When: time.Date(2026, 11, 21, 13, 40, 1, 234e6, time.UTC), Small: 255, On: true, Untagged: "u",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestStrictRefusesWhatEncodingJSONWouldLetPass(t *testing.T) {
	const known = "unknown field; known are name, retry, spec, any, labels, items, when, maybe, small, on, Untagged"
	for _, test := range []struct{ body, location, message string }{
		{`{"Name":"n"}`, "body.Name", known},
		{`{"name":"a","name":"b"}`, "body.name", "comes twice"},
		{`{"secret":"a"}`, "body.secret", known},
		{`{"retry":{"factr":1}}`, "body.retry.factr", "unknown field; known are factor"},
		{`{"items":[{},{"factor":"2"}]}`, "body.items[1].factor", "expected a number"},
		{`{"items":{}}`, "body.items", "expected a list"},
		{`{"retry":[]}`, "body.retry", "expected an object"},
		{`{"retry":null}`, "body.retry", "expected an object"},
		{`{"name":null}`, "body.name", "expected a string"},
		{`{"name":"\ud800"}`, "body.name", "half a surrogate pair"},
		{`{"name":"\u0000"}`, "body.name", "must not contain NUL"},
		{`{"labels":{"a":"1","a":"2"}}`, "body.labels.a", "comes twice"},
		{`{"labels":{"a":1}}`, "body.labels.a", "expected a string"},
		{`{"maybe":1.5}`, "body.maybe", "expected an integer in range"},
		{`{"small":256}`, "body.small", "expected an integer in range"},
		{`{"small":-1}`, "body.small", "expected an integer in range"},
		{`{"on":"true"}`, "body.on", "expected true or false"},
		{`{"when":"today"}`, "body.when", `parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"`},
		{`{"spec":{]}`, "body.spec", "at byte 9: expected a name in quotes"},
		{`{} {}`, "body", "at byte 3: expected nothing behind the value"},
		{"{\"name\":\"\xff\"}", "body.name", "at byte 9: not valid UTF-8"},
	} {
		var v strictBody
		var fault *Error
		if err := Strict([]byte(test.body), &v); !errors.As(err, &fault) {
			t.Errorf("%s: %v, want an *Error", test.body, err)
		} else if fault.Fields[0].Location != test.location || fault.Fields[0].Message != test.message {
			t.Errorf("%s:\n got %v\nwant %s: %s", test.body, fault, test.location, test.message)
		}
	}
}
