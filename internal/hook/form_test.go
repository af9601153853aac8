package hook

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
)

var asForm = map[string]string{"Content-Type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8"}

func TestAFormIsAnObjectOfItsFields(t *testing.T) {
	for body, want := range map[string]string{
		"":                         `{}`,
		"&&":                       `{}`,
		"a=1":                      `{"a":"1"}`,
		"b=2&a=1":                  `{"b":"2","a":"1"}`,
		"a=1&b=2&a=&a=3":           `{"a":["1","","3"],"b":"2"}`,
		"a":                        `{"a":""}`,
		"=x":                       `{"":"x"}`,
		"a=b=c":                    `{"a":"b=c"}`,
		"a+b=%20+%2B":              `{"a b":"  +"}`,
		"a%5Bb%5D[]=1;c=2":         `{"a[b][]":"1;c=2"}`,
		"%E9%82%AE=é":              `{"邮":"é"}`,
		`"=\&<=%00%0a`:             `{"\"":"\\","<":"\u0000\n"}`,
		"a=1\n":                    `{"a":"1\n"}`,
		"payload=%7B%22a%22:1%7D":  `{"payload":"{\"a\":1}"}`,
		"__proto__=1&__proto__=2":  `{"__proto__":["1","2"]}`,
		strings.Repeat("a&", 1000): `{"a":[""` + strings.Repeat(`,""`, 999) + `]}`,
	} {
		if got, err := formOf([]byte(body)); string(got) != want || err != nil {
			t.Errorf("%.60q is %s, %v; want %s", body, got, err, want)
		}
	}
	for body, want := range map[string]string{
		"a=1&b=%":                        "its field 2 is not percent-encoded UTF-8",
		"a=%zz":                          "its field 1 is not percent-encoded UTF-8",
		"&&%=1":                          "its field 1 is not percent-encoded UTF-8",
		"a=%FF":                          "its field 1 is not percent-encoded UTF-8",
		"\xff=1":                         "its field 1 is not percent-encoded UTF-8",
		strings.Repeat("a&", 1000) + "b": "it has more than 1000 fields",
	} {
		if got, err := formOf([]byte(body)); got != nil || err == nil || err.Error() != want {
			t.Errorf("%.60q is %s, %v; want %s", body, got, err, want)
		}
	}
}

func TestWhatIsAFormStandsInForm(t *testing.T) {
	json := map[string]string{"Content-Type": "application/json"}
	h := made(store.Hook{Name: "h", Scheme: plain, Queue: "q", Headers: []string{}})
	for _, c := range []struct {
		body    string
		headers map[string]string
		want    string
	}{
		{"a=1&b=%26", asForm, `"form":{"a":"1","b":"&"}`},
		{"a=1&b=%26", json, `"text":"a=1&b=%26"`},
		{"a=1&b=%26", nil, `"text":"a=1&b=%26"`},
		{`{"a": 1}`, asForm, `"body":{"a": 1}`}, // as programs send it that leave curl its default
		{"a=%", asForm, `"text":"a=%"`},
		{"a=%FF", asForm, `"text":"a=%FF"`},
		{"a=\xff", asForm, `"base64":"YT3/"`},
		{"", asForm, `"form":{}`},
	} {
		s, id, err := Delivered(h, request(c.body, c.headers)).Task()
		if _, got, ok := strings.Cut(string(s.Context), `"headers":{},`); err != nil || !ok ||
			got != c.want+"}" {
			t.Errorf("%q: %s, %v, want %s", c.body, s.Context, err, c.want)
		}
		// the Content-Type is not signed: by another one it must not become another delivery
		if _, again, err := Delivered(h, request(c.body, nil)).Task(); again != id || err != nil {
			t.Errorf("%q: without its Content-Type it is %s, not %s", c.body, again, id)
		}
	}
}

func TestAFormBecomesASignal(t *testing.T) {
	h := made(store.Hook{
		Name: "ask", Scheme: "slack", Signal: "decided", Key: "/payload/actions/0/value",
	})
	const inner = `{"type":"block_actions","actions":[{"action_id":"yes","value":"o-7"}]}`
	body := url.Values{"payload": {inner}}.Encode()
	d := Delivered(h, request(body, asForm))
	s, err := d.Signal()
	want, _ := json.Marshal(map[string]string{"payload": inner})
	if err != nil || s.Key != "o-7" || string(s.Payload) != string(want) {
		t.Errorf("%+v, %v", s, err)
	}
	if !d.Silent() || Delivered(h, request("{}", asForm)).Silent() ||
		Delivered(made(store.Hook{Scheme: plain}), request("a=1", asForm)).Silent() {
		t.Error("Slack's forms, and they alone, are answered nothing")
	}
}

// The body is that of Slack's documentation, with its signature.
func TestASlashCommandBecomesATask(t *testing.T) {
	v := vectors[1]
	v.hook.Name, v.hook.Queue, v.hook.GroupKey = "talk", "q", "/user_id"
	h := made(v.hook)
	headers := maps.Clone(asForm)
	maps.Copy(headers, v.headers)
	r := request(v.body, headers)
	if !Verify(h, r, time.Unix(v.at, 0)) {
		t.Fatal("its signature is wrong")
	}
	s, id, err := Delivered(h, r).Task()
	if err != nil || s.GroupKey != "U2CERLKJA" || len(id) != 64 ||
		!strings.Contains(string(s.Context), `"command":"/webhook-collect","text":"",`) {
		t.Errorf("%+v, %v", s, err)
	}
	h.ID = "/trigger_id"
	if _, id, err = Delivered(h, r).Task(); err != nil ||
		id != "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c" {
		t.Errorf("the id is %q, %v", id, err)
	}
}

func TestWhatIsNotInAFormIsSaid(t *testing.T) {
	for _, c := range []struct{ body, pointer, want string }{
		{"b=1", "/a", "body/a: is not there"},
		{"a=", "/a", "body/a: must be a text that is not empty, or a number"},
		{"a=1&a=2", "/a", "body/a: must be a text that is not empty, or a number"},
		{"a=1&a=2", "/a/2", "body/a/2: is not there"},
		{"a=x", "/a/b", "body/a/b: is not there"},
		{"a={", "/a/b", "body/a/b: is not there"},
		{"a=%", "/a",
			"body/a: is not there: the body is no form: its field 1 is not percent-encoded UTF-8"},
	} {
		h := made(store.Hook{Name: "h", Scheme: plain, Queue: "q", GroupKey: c.pointer})
		_, _, err := Delivered(h, request(c.body, asForm)).Task()
		if err == nil || err.Error() != c.want {
			t.Errorf("%s at %s: %v", c.body, c.pointer, err)
		}
	}
}

// FuzzForm holds the form to what net/url reads.
func FuzzForm(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.body)
	}
	for _, seed := range []string{
		"a=1&a=2&b", "%", "a=%FF&=", "a+b=%2B;c", "payload=%7B%22a%22%3A%5B1%5D%7D", "&&=&%26=%3D",
		"\x00=\u2028&\xed\xa0\x80=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		checkDelivery(t, made(store.Hook{
			Scheme: plain, Name: "h", Queue: "q", GroupKey: "/a/0", Headers: []string{"X-Id"},
		}), request(body, asForm))
		object, err := formOf([]byte(body))
		if err != nil {
			if object != nil {
				t.Errorf("no form, and yet %s", object)
			}
			return
		}
		if bad := wire.CheckValue(object); bad != "" {
			t.Fatalf("%s %s", object, bad)
		}
		var fields map[string]any
		if err := json.Unmarshal(object, &fields); err != nil {
			t.Fatal(err)
		}
		got := url.Values{}
		for name, value := range fields {
			list, several := value.([]any)
			if !several {
				list = []any{value}
			} else if len(list) < 2 {
				t.Errorf("%q is a list of %d", name, len(list))
			}
			for _, v := range list {
				got[name] = append(got[name], v.(string))
			}
		}
		want, err := url.ParseQuery(strings.ReplaceAll(body, ";", "%3B"))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, want %v, %v", body, got, want, err)
		}
		names := slices.Sorted(maps.Keys(fields))
		for _, name := range names[:min(len(names), 10)] {
			pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			v := got[name]
			if text, _ := textOf(at(object, pointer)); len(v) == 1 && text != v[0] {
				t.Errorf("at %s stands %q, want %q", pointer, text, v[0])
			}
			if second := textAt(object, pointer+"/1"); len(v) > 1 && second != v[1] {
				t.Errorf("at %s/1 stands %q, want %q", pointer, second, v[1])
			}
		}
	})
}

func textAt(value json.RawMessage, pointer string) string {
	text, _ := textOf(at(value, pointer))
	return text
}
