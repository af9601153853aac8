package notify

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rotahq/rota/internal/store"
)

var update = flag.Bool("update", false, "write the files under testdata anew")

var moment = time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC)

func offline() store.Event {
	return store.Event{
		Seq: 42, Time: moment.Add(123456 * time.Microsecond).UnixMicro(), Kind: "node.offline",
		Subject: "n2",
		Text:    "node n2 <went> away & said \"nothing\"\nits lease ended",
		Fields: map[string]string{
			"token": "7", "why": `a "lease"`,
		},
	}
}

// The bodies as each receiver documents them. go test ./internal/notify -update writes them; read
// the diff.
func TestBodiesAreAsTheirReceiversDocumentThem(t *testing.T) {
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			n := store.Notifier{Name: "ops", Format: name}
			var timestamp, sign string
			if name == "telegram" {
				n.Chat = "-1001234"
			}
			if f.sign == signBody {
				timestamp, sign = "1599360473", "c2lnbmF0dXJl"
			}
			e := offline()
			got, err := f.render(&n, messageOf(&n, &e, moment), timestamp, sign)
			if err != nil {
				t.Fatal(err)
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, got, "", "  "); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			file := "testdata/" + name + ".json"
			if *update {
				if err := os.WriteFile(file, pretty.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || !bytes.Equal(pretty.Bytes(), want) {
				t.Errorf("%v\ngot  %s\nwant %s", err, &pretty, want)
			}
		})
	}
}

// FuzzNoEventBreaksOutOfABody: whatever stands in an event, each body is JSON of the same shape,
// and the generic one tells all of it.
func FuzzNoEventBreaksOutOfABody(f *testing.F) {
	e := offline()
	f.Add(e.Kind, e.Subject, e.Text, "why")
	f.Add(`","x":"`, "\x00\\", "\xff\u2028</script>{{.Text}}", `"}`)
	f.Fuzz(func(t *testing.T, kind, subject, text, field string) {
		e := store.Event{
			Seq: 1, Time: 1, Kind: kind, Subject: subject, Text: text, Fields: map[string]string{
				field: text,
			},
		}
		for name, form := range formats {
			n := store.Notifier{Format: name, Chat: field}
			b, err := form.render(&n, messageOf(&n, &e, moment), "", "")
			if len(kind)+len(subject)+len(text)+len(field) > 2000 {
				// six bytes each at worst, and the limit has its own test
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if shape(t, b) != shape(t,
				bodyOf(t, name, store.Event{Fields: map[string]string{}}, "c")) &&
				name != "generic" {
				t.Errorf("%s: %s", name, b)
			}
			if name != "generic" {
				continue
			}
			var got struct {
				Type string
				Data struct {
					Kind, Subject, Text string
					Fields              map[string]string
				}
			}
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(strings.Join([]string{kind, subject, text, field}, " ")) {
				continue
			}
			if got.Type != kind || got.Data.Kind != kind || got.Data.Subject != subject ||
				got.Data.Text != text || got.Data.Fields[field] != text {
				t.Errorf("%+v became %s", e, b)
			}
		}
	})
}

func bodyOf(t *testing.T, name string, e store.Event, chat string) []byte {
	t.Helper()
	form := formats[name]
	n := store.Notifier{Format: name, Chat: chat}
	b, err := form.render(&n, messageOf(&n, &e, moment), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shape is a document without its strings.
func shape(t *testing.T, b []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return string(encoded(emptied(v)))
}

func emptied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = emptied(v[k])
		}
	case []any:
		for i := range v {
			v[i] = emptied(v[i])
		}
	case string:
		return ""
	}
	return v
}

func TestOwnTemplatesMakeTheBody(t *testing.T) {
	e := offline()
	for _, c := range []struct{ template, want, wrong string }{
		{`{"a":"{{.Text}}","n":{{.Seq}},"f":{{.Object}},"why":"{{.Fields.why}}","none":"{{.Fields.none}}"}`,
			`{"a":"node n2 <went> away & said \"nothing\"\nits lease ended","n":42,"f":{"token":"7","why":"a \"lease\""},"why":"a \"lease\"","none":""}`,
			""},
		{`{{if eq .Kind "node.offline"}}1{{else}}2{{end}}`, "1", ""},
		{`{"a":{{.Text}}}`, "", "the template does not make JSON"},
		{`{{.Nothing}}`, "", "can't evaluate field Nothing"},
		{`{{`, "", "parse template"},
		{`{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`, "",
			"repeats something more than 10000 times"},
		{`"{{range 100}}{{printf "%0999d" 1}}{{end}}"`, "", "it is longer than 65536 bytes"},
	} {
		n := store.Notifier{Name: "ops", Format: "generic", Template: c.template}
		f := formats["generic"]
		b, err := f.render(&n, messageOf(&n, &e, moment), "", "")
		if string(b) != c.want || (err == nil) != (c.wrong == "") || err != nil &&
			!strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s\ngot  %s, %v\nwant %s, %s", c.template, b, err, c.want, c.wrong)
		}
	}
}

func TestCutsAreBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"a☃b", 2, "a…"}, {"☃", 2, "…"},
		{"\x80\x80", 1, "…"},
	} {
		if got := cut(c.text, c.limit); got != c.want {
			t.Errorf("cut(%q, %d) = %q", c.text, c.limit, got)
		}
	}
}
