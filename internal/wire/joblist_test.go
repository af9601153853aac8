package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func TestJobsAreReadWithTheirSpecsAsTheyStand(t *testing.T) {
	const spec = `{ "a" :1e400, "a":"\ud800" }`
	want := []task.Job{
		{Name: "a", Load: task.Unit}, {Name: "b", Load: 2125, Spec: json.RawMessage(spec)},
		{Name: "c"},
	}
	list := `[{"job":"a"}, {"load":2.125,"spec": ` + spec +
		` ,"job":"b"},{"job":"c","load":0,"spec":null}]`
	for _, text := range []string{
		list, ` {"jobs":` + list + `} `,
		"# followed files\n\na\r\n\tb  2.125\t" + spec + " \nc 0 null\n",
	} {
		jobs, err := ParseJobText([]byte(text), 3)
		if diff := cmp.Diff(want, jobs); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestWrongJobsAreNamedByTheirPlaces(t *testing.T) {
	lines := func(messages ...string) (fields []task.FieldError) {
		for _, m := range messages {
			at, message, _ := strings.Cut(m, ": ")
			fields = append(fields, task.FieldError{Location: at, Message: message})
		}
		return fields
	}
	for _, c := range []struct {
		text  string
		value bool
		want  []task.FieldError
	}{
		{`{}`, true, lines("body: jobs is missing")},
		{`{"jobs":{}}`, false, lines("body.jobs: expected a list")},
		{`{"jobs":[{"job":"a"},{"name":"b"}]}`, false,
			lines("body.jobs[1].name: unknown field; known are job, load, spec")},
		{`{"jobs":[{"load":1}]}`, true, lines("body.jobs[0]: job is missing")},
		{`{"jobs":[{"job":"a","load":"1"}]}`, false, lines("body.jobs[0].load: expected a number")},
		{`{"jobs":[{"job":"a","load":-1}]}`, true,
			lines("body.jobs[0].load: -1: must be 0 to 1000000")},
		{`{"jobs":[{"job":"a","load":0.0001}]}`, true,
			lines("body.jobs[0].load: 0.0001: at most 3 decimals")},
		{`[{"job":"a","load":1e99}]`, true, lines("body[0].load: 1e+99: must be 0 to 1000000")},
		{`[{"job":"a","spec":{]}]`, false,
			lines("body[0].spec: at byte 20: expected a name in quotes")},
		{`[{"job":"a"},{"job":"b"},{"job":"c"},{"job":"d"}]`, true,
			lines("body: more than 3 elements")},
		{`[] x`, false, lines("body: at byte 3: expected nothing behind the value")},
		{"-\n#\nb x\nb -1\nb 1e1x\nb NaN\nb 0x10\nb 1 {\n", true, lines(
			`line 1: "-" `+limits.NameRule, `line 3: load "x" is no number`,
			`line 4: load -1: must be 0 to 1000000`,
			`line 5: load "1e1x" is no number`, `line 6: load "NaN" is no number`,
			`line 7: load "0x10" is no number`,
			`line 8: the spec is no JSON: at byte 1: ends too early`)},
		{"b 1 {} x\nb 1 \"\xff\"\nb .5", true,
			lines(`line 1: the spec is one JSON value; expected nothing behind byte 2`,
				`line 2: the spec is not valid UTF-8`, `line 3: load ".5" is no number`)},
		{"a\nb\n\na 2", true, lines(`line 4: "a" is the job of line 1 already`)},
		{"a\nb\nc\nd\ne", true, lines("line 4: more than 3 jobs")},
		{"a 1 \"" + strings.Repeat("x", limits.MaxSpec) + `"`, true,
			lines("line 1: the spec is larger than 65536 bytes")},
		{strings.Repeat("-\n", 200), true,
			slices.Repeat(lines(`line: "-" `+limits.NameRule),
				limits.MaxFaults)},
	} {
		jobs, err := ParseJobText([]byte(c.text), 3)
		var fault *Error
		if !errors.As(err, &fault) || jobs != nil {
			t.Errorf("%.60q: %v %v", c.text, jobs, err)
			continue
		}
		if len(c.want) == limits.MaxFaults {
			for i := range fault.Fields {
				fault.Fields[i].Location = "line"
			}
		}
		if diff := cmp.Diff(c.want, fault.Fields); diff != "" || fault.Value != c.value {
			t.Errorf("%.60q: value %v %s", c.text, fault.Value, diff)
		}
	}
}

// FuzzJobText: no text breaks the parser; what it accepts is, written anew, the same list.
func FuzzJobText(f *testing.F) {
	for _, text := range []string{
		`{"jobs":[{"job":"a","load":0.5,"spec":[1e400]}]}`, `[{"job":"a"},{}]`,
		"a\nb 2 {\"x\":1}\n# c\n", "a 1 \"\\ud800\"", "a\t-0 null", "", " \n[", "a 1 {", "a 1e-3",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		jobs, err := ParseJobText(text, 50)
		if !bytes.Equal(before, text) {
			t.Fatal("the text was written into")
		}
		if err != nil {
			var fault *Error
			if !errors.As(err, &fault) || len(fault.Fields) == 0 || fault.Fields[0].Message == "" {
				t.Fatalf("refuses %q without place and reason: %v", text, err)
			}
			return
		}
		again, err := ParseJobs(AppendJobs(nil, jobs), 50)
		if diff := cmp.Diff(jobs, again); err != nil || diff != "" {
			t.Fatalf("%q: %v %s", text, err, diff)
		}
	})
}

func BenchmarkParseJobs(b *testing.B) {
	jobs := make([]task.Job, 10_000)
	for i := range jobs {
		jobs[i] = task.Job{
			Name: "logs.host-" + strings.Repeat("x", i%20), Load: 1500,
			Spec: json.RawMessage(`{"path":"/var/log/x"}`),
		}
	}
	body := AppendJobs(nil, jobs)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := ParseJobs(body, task.MaxJobChange); err != nil {
			b.Fatal(err)
		}
	}
}
