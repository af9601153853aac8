package wire

import (
	"encoding/json"
	"errors"
	"regexp"
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
	Maybe    *int              `json:"maybe,omitempty"`
	Small    uint8             `json:"small"`
	On       bool              `json:"on"`
	Lasts    strictSpan        `json:"lasts"`
	Retries  *strictRetry      `json:"retries,omitempty"`
	Secret   string            `json:"-"`
	Untagged string
}

// strictSpan reads itself from text, as durations do.
type strictSpan struct{ time.Duration }

func (s *strictSpan) UnmarshalText(b []byte) (err error) {
	s.Duration, err = time.ParseDuration(string(b))
	return err
}

func (s strictSpan) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

type strictRetry struct {
	Factor float64 `json:"factor"`
}

func TestStrictDecodesWhatIsRight(t *testing.T) {
	body := `{"name":"n","retry":{"factor":1.5},"spec":{"a":1,"a":2},"any":{"b":1,"b":2},"labels":{"Name":"x","name":"y"},` +
		`"items":[{"factor":2},{}],"when":"2026-11-21T13:40:01.234Z","maybe":-7,"small":255,"on":true,"lasts":"1m","retries":{},"Untagged":"u"}`
	var got strictBody
	err := Strict([]byte(body), &got)
	minusSeven := -7
	want := strictBody{
		Name: "n", Retry: strictRetry{1.5}, Spec: json.RawMessage(`{"a":1,"a":2}`),
		Any:    map[string]any{"b": 2.0},
		Labels: map[string]string{"Name": "x", "name": "y"}, Items: []strictRetry{{2}, {}},
		When: time.Date(2026, 11, 21, 13, 40, 1, 234e6, time.UTC), Maybe: &minusSeven, Small: 255,
		On:    true,
		Lasts: strictSpan{time.Minute}, Retries: &strictRetry{}, Untagged: "u",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestStrictRefusesWhatEncodingJSONWouldLetPass(t *testing.T) {
	const known = "unknown field; known are name, retry, spec, any, labels, items, when, maybe, small, on, lasts, retries, Untagged"
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
		{`{"any":[1e400]}`, "body.any", "holds a number that is too large"},
		{`{"lasts":5}`, "body.lasts", "expected a string"},
		{`{"lasts":{}}`, "body.lasts", "expected a string"},
		{`{"lasts":null}`, "body.lasts", "expected a string"},
		{`{"lasts":"soon"}`, "body.lasts", `time: invalid duration "soon"`},
		{`{"retries":null}`, "body.retries", "must be an object, not null"},
		{`{"retries":nil}`, "body.retries", "at byte 11: expected a value"},
		{`{"maybe":null}`, "body.maybe", "must be an integer in range, not null"},
		{`{"maybe":1.5}`, "body.maybe", "expected an integer in range"},
		{`{"small":256}`, "body.small", "expected an integer in range"},
		{`{"small":-1}`, "body.small", "expected an integer in range"},
		{`{"on":"true"}`, "body.on", "expected true or false"},
		{`{"when":"today"}`, "body.when",
			`parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"`},
		{`{"spec":{]}`, "body.spec", "at byte 9: expected a name in quotes"},
		{`{} {}`, "body", "at byte 3: expected nothing behind the value"},
		{"{\"name\":\"\xff\"}", "body.name", "at byte 9: not valid UTF-8"},
	} {
		var v strictBody
		var fault *Error
		if err := Strict([]byte(test.body), &v); !errors.As(err, &fault) {
			t.Errorf("%s: %v, want an *Error", test.body, err)
		} else if fault.Fields[0].Location != test.location ||
			fault.Fields[0].Message != test.message {
			t.Errorf("%s:\n got %v\nwant %s: %s", test.body, fault, test.location, test.message)
		}
	}
}

// FuzzStrict: whatever comes, what is accepted can be decoded, and what is refused is refused in
// the words of JSON, not of Go.
func FuzzStrict(f *testing.F) {
	for _, seed := range []string{
		`{"name":"n","retry":{"factor":1.5},"labels":{"a":"b"},"items":[{}],"when":"2026-11-21T13:40:01Z","lasts":"1m"}`,
		`{"any":1e400}`, `{"lasts":5}`, `{"when":[]}`, `{"retries":null}`, `{"small":1e2}`,
		`{"spec":null,"any":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var v strictBody
		if err := Strict(body, &v); err != nil &&
			regexp.MustCompile(`Go (value|struct)|json: |wire\.`).MatchString(err.Error()) {
			t.Errorf("%q: %v", body, err)
		}
	})
}
