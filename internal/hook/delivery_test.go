package hook

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

func TestPointersAreThoseOfRFC6901(t *testing.T) {
	const doc = `{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5,
"k\"l": 6, " ": 7, "m~n": 8, "deep": {"x": [{"y": "z"}]}, "null": null}`
	for pointer, want := range map[string]string{
		"/foo": `["bar", "baz"]`, "/foo/0": `"bar"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3",
		"/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8", "/deep/x/0/y": `"z"`,
		"/null": "null", "/foo/2": "", "/foo/00": "", "/foo/-": "", "/foo/+1": "", "/foo/x": "",
		"/FOO": "", "/foo/0/x": "", "/null/x": "", "/deep/x/y": "", "/no": "", "/foo/99999999999": "",
	} {
		if !validPointer(pointer) {
			t.Errorf("%q is not valid", pointer)
		}
		if got := string(at(json.RawMessage(doc), pointer)); got != want {
			t.Errorf("at %q stands %q, want %q", pointer, got, want)
		}
	}
	for _, pointer := range []string{"", "foo", "/~", "/~2", "/a~"} {
		if validPointer(pointer) {
			t.Errorf("%q is valid", pointer)
		}
	}
}

func TestADeliveryHasTheIdThatItsSenderGivesIt(t *testing.T) {
	each(t, func(t *testing.T, h *store.Hook, set map[string]string) {
		want := map[string]string{
			"github": "id-1", "shopify": "id-1", Standard: "id-1", "stripe": "evt_1", "slack": "Ev1",
		}[h.Scheme]
		id, err := Delivered(h, request(body, set)).id()
		if err != nil || h.Scheme != plain && id != want || h.Scheme == plain && len(id) != 64 {
			t.Errorf("got %q, %v", id, err)
		}
		again, err := Sign(h, secret, "id-1", []byte(body), now.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := Delivered(h, request(body, again)).id(); twice != id || err != nil {
			t.Errorf("sent again it is %q, %v", twice, err)
		}
		h.ID = "/order/id"
		if id, err = Delivered(h, request(body, set)).id(); id != "7" || err != nil {
			t.Errorf("by a pointer: %q, %v", id, err)
		}
		h.ID = "X-Mine"
		set["x-mine"] = "m"
		if id, err = Delivered(h, request(body, set)).id(); id != "m" || err != nil {
			t.Errorf("by a header: %q, %v", id, err)
		}
	})
}

// Where the id is signed, an id in a header that is not must not make another delivery of it.
func TestAnIDBesideTheSignedOneIsNone(t *testing.T) {
	h := made(store.Hook{Name: "h", Scheme: Standard, Queue: "q", Secrets: []store.Secret{secret}})
	at := "1790000000"
	mac := macOf(make([]byte, 24), "."+at+".", []byte(body))
	set := map[string]string{
		"Svix-Timestamp": at, "Svix-Signature": "v1," + base64.StdEncoding.EncodeToString(mac),
	}
	ids := map[string]bool{}
	for _, unsigned := range []string{"", "a", "b"} {
		set["Webhook-Id"] = unsigned
		r := request(body, set)
		if !Verify(h, r, now) {
			t.Fatal("the signature is wrong")
		}
		id, err := Delivered(h, r).id()
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	if len(ids) != 1 {
		t.Errorf("one delivery has the ids %v", ids)
	}
}

func TestADeliveryBecomesATask(t *testing.T) {
	h := made(store.Hook{
		Name: "gh", Scheme: "github", Secrets: []store.Secret{secret}, Queue: "builds", Stage: "new",
		Priority: time.Minute, GroupKey: "/repo", Meta: map[string]string{"from": "github"},
	})
	headers := map[string]string{
		"X-GitHub-Delivery": "d-1", "X-GitHub-Event": "push", "Content-Type": "application/json",
		"Authorization": "Basic x",
	}
	const text = " {\"repo\" : \"a/b\",\n \"n\": 1e400, \"dup\": 1, \"dup\": 2} "
	s, id, err := Delivered(h, request(text, headers)).Task()
	if err != nil || id != "d-1" {
		t.Fatalf("%q, %v", id, err)
	}
	context := `{"hook":"gh","id":"d-1","headers":{"Content-Type":"application/json",` +
		`"X-GitHub-Event":"push"},"body":` + strings.TrimSpace(text) + `}`
	if string(s.Context) != context {
		t.Errorf("context %s, want %s", s.Context, context)
	}
	s.Context = nil
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", task.Submission{
		Queue: "builds", Stage: "new", Priority: time.Minute, GroupKey: "a/b", Key: "hook:gh/d-1",
		KeyFor: 7 * 24 * time.Hour, Meta: h.Meta,
	}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestABodyThatIsNotJSONIsTextOrBytes(t *testing.T) {
	h := made(store.Hook{Name: "h", Scheme: plain, Queue: "q", Headers: []string{}})
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for text, want := range map[string]string{
		"a=1&b=2": `"text":"a=1&b=2"`, "": `"text":""`, "{": `"text":"{"`, "\xff\x00": `"base64":"/wA="`,
		"null": `"body":null`, `"a"`: `"body":"a"`, "1,2": `"text":"1,2"`, "\x00": `"text":"\u0000"`,
		"{\"a\":\"\xff\"}": `"base64":"eyJhIjoi/yJ9"`, deep: `"text":"` + deep + `"`,
		deep[1:1999]: `"body":` + deep[1:1999],
	} {
		s, _, err := Delivered(h, request(text, nil)).Task()
		context := string(s.Context)
		if _, got, ok := strings.Cut(context, `"headers":{},`); err != nil || !ok || got != want+"}" {
			t.Errorf("%.40q: %.200s, %v", text, context, err)
		}
		if bad := wire.CheckValue(s.Context); bad != "" {
			t.Errorf("%.40q: the context %s", text, bad)
		}
	}
}

func TestWhatIsNotAtAPointerIsSaid(t *testing.T) {
	for _, c := range []struct{ body, at, message string }{
		{`{"b":1}`, "body/a", "is not there"}, {`x`, "body/a", "is not there: the body is not JSON"},
		{`{"a":{}}`, "body/a", "must be a text that is not empty, or a number"},
		{`{"a":null}`, "body/a", "must be a text that is not empty, or a number"},
		{`{"a":""}`, "body/a", "must be a text that is not empty, or a number"},
	} {
		for _, h := range []store.Hook{
			{Name: "h", Scheme: plain, Queue: "q", GroupKey: "/a"},
			{Name: "h", Scheme: plain, Queue: "q", ID: "/a"},
			{Name: "h", Scheme: plain, Signal: "s", Key: "/a"},
		} {
			d := Delivered(made(h), request(c.body, nil))
			var err error
			if h.Queue != "" {
				_, _, err = d.Task()
			} else {
				_, err = d.Signal()
			}
			invalid, ok := errors.AsType[*task.InvalidError](err)
			if want := (task.FieldError{Location: c.at, Message: c.message}); !ok ||
				invalid.Fields[0] != want {
				t.Errorf("%s of %+v: %v", c.body, h, err)
			}
		}
	}
	h := made(store.Hook{Name: "h", Scheme: plain, Queue: "q", ID: "X-Id"})
	if _, _, err := Delivered(h, request("x", nil)).Task(); err == nil {
		t.Error("a header with the id is missing, and nothing is said")
	}
}

func TestADeliveryBecomesASignal(t *testing.T) {
	h := made(store.Hook{
		Name: "pay", Scheme: "stripe", Signal: "paid", Key: "/order", Keep: time.Hour,
	})
	for text, key := range map[string]string{
		`{"order":7}`: "7", ` {"order":"o-7"} `: "o-7", `{"order":true}`: "true",
	} {
		d := Delivered(h, request(text, nil))
		s, err := d.Signal()
		if err != nil || s.Name != "paid" || s.Key != key || s.Keep != time.Hour ||
			string(s.Payload) != strings.TrimSpace(text) || d.By() != "hook:pay" {
			t.Errorf("%s: %+v by %s, %v", text, s, d.By(), err)
		}
	}
}

func TestOnlySlackIsToldAChallenge(t *testing.T) {
	const asks = `{"token":"x","challenge":"3eZbr","type":"url_verification"}`
	for _, c := range []struct{ scheme, body, want string }{
		{"slack", asks, "3eZbr"}, {"github", asks, ""}, {"slack", `{"challenge":"a"}`, ""},
		{"slack", `type=url_verification&challenge=a`, ""},
	} {
		d := Delivered(made(store.Hook{Scheme: c.scheme}), request(c.body, nil))
		if got := d.Challenge(); got != c.want {
			t.Errorf("%s %s: %q", c.scheme, c.body, got)
		}
	}
}

// Names may have a colon in them: two hooks must not take each other's deliveries for their own.
func TestDeliveriesOfTwoHooksHaveTwoKeys(t *testing.T) {
	if a, b := keyOfDelivery("a", "b:c"), keyOfDelivery("a:b", "c"); a == b {
		t.Errorf("both are %q", a)
	}
	long := strings.Repeat("x", 300)
	keys := map[string]bool{}
	for _, id := range []string{long, long + "y", "a\nb", "a\nc", "\xff"} {
		key := keyOfDelivery(strings.Repeat("邮", 128), id)
		if keys[key] || !limits.ValidText(key, limits.MaxKey) {
			t.Errorf("%.10q has the key %q", id, key)
		}
		keys[key] = true
	}
}

// checkDelivery shows that whatever comes makes a task or a signal that can be stored, or an error.
func checkDelivery(t *testing.T, h *store.Hook, r Request) {
	d := Delivered(h, r)
	d.Challenge()
	s, _, err := d.Task()
	if _, ok := errors.AsType[*task.InvalidError](err); err != nil && !ok {
		t.Errorf("a task: %v", err)
	}
	if bad := wire.CheckValue(s.Context); err == nil && bad != "" {
		t.Errorf("the context %s: %q", bad, s.Context)
	}
	if !limits.ValidText(s.Key, limits.MaxKey) {
		t.Errorf("the key is %q", s.Key)
	}
	h.Key = "/a"
	signal, err := d.Signal()
	if bad := wire.CheckValue(signal.Payload); err == nil && bad != "" {
		t.Errorf("the payload %s: %q", bad, signal.Payload)
	}
}
