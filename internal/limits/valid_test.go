package limits_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0": true, "a.b_c-d9": true, strings.Repeat("a", limits.MaxName): true,
		"A": true, "_a": true, "_": true, "é": true, "e\u0301": true, "a.-_:@+": true, "邮件": true,
		"مهام-١": true, "Очередь": true, "हिन्दी": true, "ไทย": true, "メール・": false, "𠮷野": true,
		strings.Repeat("𠮷", limits.MaxName): true, strings.Repeat("𠮷", limits.MaxName+1): false,
		"": false, strings.Repeat("a", limits.MaxName+1): false, ".a": false, "-a": false,
		":a": false, "@a": false, "+a": false, "\u0301a": false,
		"a b": false, "a/b": false, "a,b": false, "a*": false, "a=b": false, "a%b": false,
		"a\\b": false, "a\"b": false, "a\u00a0b": false, "a😀": false,
		"a²": false, "a½": false, "a\ue000": false,
		"a\u202eb": false, "a\u200bb": false, "a\u200db": false, "a\ufeffb": false, // not seen
		"a\u034fb": false, "a\ufe0fb": false, "\u115fa": false, "a\u3164": false,
		"a\U000e0100": false,
		"a\x00":       false, "a\n": false, "a\xff": false, "a\ufffd": false, "\xff": false,
	} {
		if got := limits.ValidName(name); got != want {
			t.Errorf("ValidName(%.40q) = %v", name, got)
		}
	}
}

// FuzzValidName: what was a name while names were ASCII is one still, and a name is text of which
// every character is seen.
func FuzzValidName(f *testing.F) {
	old := regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	for _, s := range []string{"mail", "img-0.9_", "邮件", "e\u0301", "a\u202eb", "a/b", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		valid := limits.ValidName(s)
		if old.MatchString(s) && !valid {
			t.Errorf("%q was a name", s)
		}
		if !valid {
			return
		}
		if !utf8.ValidString(s) || utf8.RuneCountInString(s) > limits.MaxName ||
			strings.ContainsAny(s, "/\\ ,*=%?#&\"'<>|;$`\t\r\n") {
			t.Errorf("%+q is a name", s)
		}
		for _, r := range s {
			if !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%+q has %U, which nobody sees", s, r)
			}
		}
	})
}

func TestValidText(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "a b": true, "é😀": true, "12345678": true,
		"123456789": false, "é😀é😀": false, "\x00": false, "a\n": false, "\x7f": false,
		"\u0085": false, "\xff": false, "\uFFFD": false,
	} {
		if got := limits.ValidText(text, 8); got != want {
			t.Errorf("ValidText(%q, 8) = %v", text, got)
		}
	}
}

const metaRule = "names are 1 to 64 bytes: letters, digits and marks of any script or . - _ : @ +, " +
	"and begin with a letter, a digit or _"

// carried are so many strings of a length.
func carried(n, length int) map[string]string {
	list := map[string]string{}
	for i := range n {
		list[fmt.Sprint("name", i)] = strings.Repeat("v", length)
	}
	return list
}

func TestSubmissionCheckNamesEverythingThatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name string
		s    task.Submission
		want []task.FieldError
	}{
		{"the least", task.Submission{Queue: "q"}, nil},
		{"the most", task.Submission{
			Queue: strings.Repeat("q", 128), Stage: strings.Repeat("s", 256),
			Priority: limits.MaxPriority, Delay: limits.MaxDuration,
			Key: strings.Repeat("k", 256), KeyFor: limits.MaxDuration,
			GroupKey: strings.Repeat("g", 256), MaxAttempts: limits.MaxAttempts,
			Timeout: limits.MaxDuration,
		}, nil},
		{"the first moment", task.Submission{Queue: "q", Due: limits.MinTime}, nil},
		{"the last moment", task.Submission{Queue: "q", Due: limits.MaxTime.Add(-1)}, nil},
		{"everything", task.Submission{
			Queue: "/", Stage: "\n", Key: "\n", GroupKey: "\n", Priority: -1, Delay: -1, KeyFor: -1,
			Timeout: -1, Due: limits.MaxTime, MaxAttempts: -1,
		}, []task.FieldError{
			{Location: "body.queue", Message: `"/" ` + limits.NameRule},
			{Location: "body.stage", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.key", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.group_key", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.priority", Message: "must be 0s to 8760h0m0s"},
			{Location: "body.delay", Message: "must be 0s to 876000h0m0s"},
			{Location: "body.key_for", Message: "must be 0s to 876000h0m0s"},
			{Location: "body.timeout",
				Message: "must be 1ms to 876000h0m0s, or 0s for the queue's"},
			{Location: "body.due", Message: "must lie in the years 2000 to 2199"},
			{Location: "body.delay", Message: "give due or delay, not both"},
			{Location: "body.max_attempts", Message: "must be 1 to 1000000, or left out"},
		}},
		{"just too much", task.Submission{
			Queue: strings.Repeat("q", 129), Stage: strings.Repeat("s", 257),
			Priority: limits.MaxPriority + 1, Delay: limits.MaxDuration + 1,
			Key: strings.Repeat("k", 257), GroupKey: strings.Repeat("g", 257),
			MaxAttempts: limits.MaxAttempts + 1, Timeout: math.MaxInt64,
		}, []task.FieldError{
			{Location: "body.queue",
				Message: `"` + strings.Repeat("q", 40) +
					`…" ` + limits.NameRule},
			{Location: "body.stage", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.key", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.group_key", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.priority", Message: "must be 0s to 8760h0m0s"},
			{Location: "body.delay", Message: "must be 0s to 876000h0m0s"},
			{Location: "body.timeout",
				Message: "must be 1ms to 876000h0m0s, or 0s for the queue's"},
			{Location: "body.max_attempts", Message: "must be 1 to 1000000, or left out"},
		}},
		{"no time to start", task.Submission{Queue: "q", StartWithin: 1}, []task.FieldError{
			{Location: "body.start_within", Message: "must be 1ms to 876000h0m0s, or 0s for no limit"}}},
		{"a time to start", task.Submission{Queue: "q", StartWithin: time.Millisecond}, nil},
		{"the most that is carried", task.Submission{Queue: "q", Meta: carried(7, 256)}, nil},
		{"sixteen", task.Submission{Queue: "q", Meta: carried(16, 100)}, nil},
		{"seventeen", task.Submission{Queue: "q", Meta: carried(17, 1)}, []task.FieldError{
			{Location: "body.meta", Message: "17 strings are too many: at most 16"}}},
		{"more than 2 KiB", task.Submission{Queue: "q", Meta: map[string]string{
			"a": strings.Repeat(`"`, 256), "b": strings.Repeat(`\`, 256),
			"c": strings.Repeat(`"`, 256), "d": strings.Repeat(`"`, 241), "e": "ü",
		}}, []task.FieldError{
			{Location: "body.meta", Message: "2056 bytes as JSON are too many: at most 2048"}}},
		{"what can't be carried", task.Submission{Queue: "q", Meta: map[string]string{
			"": "", "a b": "", "\xff": "", strings.Repeat("n", 65): "", "line": "a\nb", "ok": "",
			"long": strings.Repeat("v", 257),
		}}, []task.FieldError{
			{Location: "body.meta.", Message: metaRule},
			{Location: "body.meta.a b", Message: metaRule},
			{Location: "body.meta.line", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.meta.long", Message: "must be at most 256 bytes of printable UTF-8"},
			{Location: "body.meta." + strings.Repeat("n", 40) + "…", Message: metaRule},
			{Location: "body.meta.\uFFFD", Message: metaRule},
		}},
		{"before time", task.Submission{Queue: "q", Due: limits.MinTime.Add(-1)},
			[]task.FieldError{
				{Location: "body.due", Message: "must lie in the years 2000 to 2199"},
			}},
		{"remembering nothing", task.Submission{Queue: "q", KeyFor: time.Hour},
			[]task.FieldError{{Location: "body.key_for", Message: "needs a key"}}},
	} {
		var e task.InvalidError
		limits.CheckSubmission(&test.s, &e, "body")
		if diff := cmp.Diff(test.want, e.Fields); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestQueueCheckNamesEverythingThatIsWrong(t *testing.T) {
	var e task.InvalidError
	q := limits.DefaultQueue("q")
	if limits.CheckQueue(&q, &e, "body"); e.Err() != nil {
		t.Errorf("the default is refused: %v", e.Err())
	}
	nan := math.NaN()
	for _, test := range []struct {
		location string
		change   func(*task.Queue)
	}{
		{"queue", func(q *task.Queue) { q.Name = "" }},
		{"timeout", func(q *task.Queue) { q.Timeout = 0 }},
		{"timeout", func(q *task.Queue) { q.Timeout = limits.MaxDuration + 1 }},
		{"silence", func(q *task.Queue) { q.Silence = time.Second - 1 }},
		{"retry.initial", func(q *task.Queue) { q.Retry.Initial = -1 }},
		{"retry.max", func(q *task.Queue) { q.Retry.Max = limits.MaxDuration + 1 }},
		{"retry.max", func(q *task.Queue) { q.Retry.Max = q.Retry.Initial - 1 }},
		{"retry.factor", func(q *task.Queue) { q.Retry.Factor = 0.9 }},
		{"retry.factor", func(q *task.Queue) { q.Retry.Factor = nan }},
		{"retry.factor", func(q *task.Queue) { q.Retry.Factor = math.Inf(1) }},
		{"retry.jitter", func(q *task.Queue) { q.Retry.Jitter = -0.1 }},
		{"retry.jitter", func(q *task.Queue) { q.Retry.Jitter = 1.1 }},
		{"retry.jitter", func(q *task.Queue) { q.Retry.Jitter = nan }},
		{"max_attempts", func(q *task.Queue) { q.MaxAttempts = 0 }},
		{"max_attempts", func(q *task.Queue) { q.MaxAttempts = limits.MaxAttempts + 1 }},
		{"hold_limit", func(q *task.Queue) { q.HoldLimit = 0 }},
		{"hold_limit", func(q *task.Queue) { q.HoldLimit = limits.MaxHold + 1 }},
		{"poll_interval", func(q *task.Queue) { q.PollInterval = 0 }},
		{"context_limit", func(q *task.Queue) { q.ContextLimit = -1 }},
		{"context_limit", func(q *task.Queue) { q.ContextLimit = 32<<20 + 1 }},
		{"retention", func(q *task.Queue) { q.Retention = -1 }},
		{"retention_dead", func(q *task.Queue) { q.DeadKept = limits.MaxDuration + 1 }},
		{"title", func(q *task.Queue) { q.Title = strings.Repeat("é", 128) + "x" }},
		{"owner", func(q *task.Queue) { q.Owner = "ana@example.com\nBcc: x" }},
		{"owner", func(q *task.Queue) { q.Owner = "\xff" }},
	} {
		var e task.InvalidError
		q := limits.DefaultQueue("q")
		test.change(&q)
		if limits.CheckQueue(&q, &e, "body"); len(e.Fields) != 1 ||
			e.Fields[0].Location != "body."+test.location {
			t.Errorf("%s: %+v", test.location, e.Fields)
		}
	}
}

func TestInvalidErrorIsNoErrorWhileNothingIsWrong(t *testing.T) {
	var e task.InvalidError
	if err := e.Err(); err != nil {
		t.Fatalf("nothing is wrong: %v", err)
	}
	e.Add("body.a", "is %d", 1)
	e.Add("body.b", "is bad")
	var back *task.InvalidError
	if err := e.Err(); !errors.As(err, &back) || err.Error() != "body.a: is 1; body.b: is bad" {
		t.Errorf("got %v", err)
	}
}
