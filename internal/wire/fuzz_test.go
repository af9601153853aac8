package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// again are the messages by name, each as a function that parses a body and writes it anew.
var again = map[string]func([]byte) ([]byte, error){
	"submissions": func(b []byte) ([]byte, error) {
		v, err := ParseSubmissions(b)
		return AppendSubmissions(nil, v), err
	},
	"receipts": func(b []byte) ([]byte, error) {
		v, err := ParseReceipts(b)
		return AppendReceipts(nil, v), err
	},
	"hold": func(b []byte) ([]byte, error) {
		v, err := ParseHold(b)
		return AppendHold(nil, v), err
	},
	"handouts": func(b []byte) ([]byte, error) {
		v, err := ParseHandouts(b)
		return AppendHandouts(nil, v), err
	},
	"reports": func(b []byte) ([]byte, error) {
		worker, v, err := ParseReports(b)
		reports := make([]task.Report, len(v))
		for i, r := range v {
			reports[i] = r.Report
		}
		return AppendReports(nil, worker, reports), err
	},
	"answers": func(b []byte) ([]byte, error) {
		v, err := ParseAnswers(b)
		answers := make([]Answer, len(v))
		for i, a := range v {
			answers[i] = Answer{a.ID.String(), a.Status, a.Detail, a.Spawned}
		}
		return AppendAnswers(nil, answers), err
	},
	"beat": func(b []byte) ([]byte, error) {
		v, err := ParseBeat(b)
		return AppendBeat(nil, v), err
	},
	"beat answer": func(b []byte) ([]byte, error) {
		v, err := ParseBeatAnswer(b)
		return AppendBeatAnswer(nil, v), err
	},
	"lines": func(b []byte) ([]byte, error) {
		v, err := ParseLines(b)
		return AppendLines(nil, v), err
	},
	"strict": func(b []byte) ([]byte, error) {
		var v strictBody
		if err := Strict(b, &v); err != nil {
			return nil, err
		}
		v.Any = nil
		return json.Marshal(v)
	},
}

// FuzzParse: whatever comes, no parser panics; what one accepts is JSON and, written anew, is
// accepted again and written the same; what it refuses has a place and a reason.
func FuzzParse(f *testing.F) {
	for _, body := range [][]byte{
		AppendSubmissions(nil, benchSubmissions()[:2]), AppendHandouts(nil, benchHandouts())[:300],
		AppendReports(nil, "w", benchReports()[:2]),
		AppendReceipts(nil, []task.Receipt{{ID: task.ID{Batch: 1}}}),
		AppendAnswers(nil, []Answer{{goodID, task.Stale, "x", []task.ID{{Batch: 1}}}}),
		AppendHold(nil, task.HoldRequest{Worker: "w", Queues: []string{"q"}, Limit: 1, Wait: 1}),
		AppendBeat(nil, task.Beat{
			Capacity: -0.5e-300, Labels: map[string]string{"": ""},
			Tasks: []task.Held{{Token: "t"}},
		}),
		AppendBeatAnswer(nil, task.BeatAnswer{Tasks: []task.HeldAction{{Action: "x"}}}),
		AppendLines(nil,
			[]task.LogLine{{Text: "\x00\xff"}, {Time: time.Unix(1e9, 1), Stream: "stderr"}}),
		[]byte(
			`{"tasks":[{"queue":"\ud83d\ude00","due":"2026-11-21T13:40:01.2345+08:00","context":1e400}]}`,
		),
		[]byte(`{"tasks":[{"due":"2199-12-31T23:59:59-23:59"}]}`), []byte(`{"":{"":[[],[{}]]}}`),
		[]byte(strings.Repeat("[", 1100)),
		[]byte(
			`{"name":"\ud800","retry":{"factor":1e400},"small":256,"labels":{"a":"\u0000"},"when":"x","items":[null]}`,
		),
		[]byte("{\"\xff"), []byte(`{"`), []byte(`"\`), []byte(`{"a" "b"`),
		[]byte(`{"tasks":[{"context":"`), []byte(`{"on":`), {},
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, write := range again {
			before := bytes.Clone(body)
			first, err := write(body)
			if !bytes.Equal(before, body) {
				t.Fatalf("%s wrote into the body", name)
			}
			if err != nil {
				fault, ok := err.(*Error)
				if !ok || len(fault.Fields) != 1 ||
					!strings.HasPrefix(fault.Fields[0].Location, "body") ||
					fault.Fields[0].Message == "" {
					t.Fatalf("%s refuses %q without place and reason: %#v", name, body, err)
				}
				continue
			}
			if name != "lines" && !json.Valid(body) {
				t.Fatalf("%s accepts %q, which is no JSON", name, body)
			}
			second, err := write(first)
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("%s: %q became %q, then %q, %v", name, body, first, second, err)
			}
		}
	})
}

// FuzzOpaque: a context is accepted when encoding/json finds it valid, and only then; it comes back
// as it is.
func FuzzOpaque(f *testing.F) {
	for _, context := range []string{
		`null`, ` { } `, `[1,2.5e-7,-0,"a\u00e9\ud800\"",{"a":null,"a":true}]`, `01`, `-`, `1.`,
		`.5`, `1e`, `+1`,
		`tru`, `nullx`, `"a`, `"\x"`, `"\u12"`, `[1,]`,
		`{"a":1,}`, `{,}`, `[`, `{"a"}`, "\"\t\"", "\"\x7f\"", `1 2`,
		`"12345678\"12345678\\"`, `"éééééééééé"`,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
	} {
		f.Add([]byte(context))
	}
	f.Fuzz(func(t *testing.T, context []byte) {
		body := slices.Concat([]byte(`{"tasks":[{"context":`), context, []byte(`}]}`))
		subs, err := ParseSubmissions(body)
		if err == nil && !json.Valid(body) {
			t.Fatalf("accepts %q", body)
		}
		if !json.Valid(context) {
			return
		}
		if !utf8.Valid(context) ||
			bytes.Count(context, []byte("["))+bytes.Count(context, []byte("{")) > maxDepth {
			return
		}
		if err != nil {
			t.Fatalf("refuses %q: %v", context, err)
		}
		want := json.RawMessage(bytes.Trim(context, " \t\r\n"))
		if string(want) == "null" {
			want = nil
		}
		if !reflect.DeepEqual(subs[0].Context, want) {
			t.Fatalf("%q became %q", context, subs[0].Context)
		}
	})
}

// FuzzValue: of values that encoding/json accepts for a field's type, the parsers accept the same,
// with the same meaning, but for the differences that the package comment names.
func FuzzValue(f *testing.F) {
	for _, value := range []string{
		`"a"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, `"\u0000"`, `"\/"`, `"\ufffd"`, `""`, `null`,
		`0`, `-0`, `12`, `1e3`, `1.0`, `9223372036854775808`,
		`-9223372036854775808`, `"2026-11-21T13:40:01.234Z"`, `"2026-11-21T13:40:01+08:00"`,
		`"2024-02-29T00:00:00.000Z"`, `"2023-02-29T00:00:00.000Z"`,
		`"2026-11-21T13:40:60.000Z"`, `"2026-11-21t13:40:01.000Z"`, `true`, `1e400`, `"12345678\n"`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if !json.Valid(value) || !utf8.Valid(value) ||
			bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			return
		}
		parse := func(field string) (task.Submission, error) {
			subs, err := ParseSubmissions(fmt.Appendf(nil, `{"tasks":[{%q:%s}]}`, field, value))
			if err != nil {
				return task.Submission{}, err
			}
			return subs[0], nil
		}
		var text string
		wantErr := json.Unmarshal(value, &text)
		strange := strings.ContainsAny(text, "\x00\uFFFD") // perhaps from half a surrogate pair
		if s, err := parse("stage"); !strange && (err == nil) != (wantErr == nil) || err == nil &&
			s.Stage != text {
			t.Errorf("string %s: %q %v, want %q %v", value, s.Stage, err, text, wantErr)
		}
		var n int
		wantErr = json.Unmarshal(value, &n)
		if s, err := parse("max_attempts"); (err == nil) != (wantErr == nil) || err == nil &&
			s.MaxAttempts != n {
			t.Errorf("integer %s: %d %v, want %d %v", value, s.MaxAttempts, err, n, wantErr)
		}
		var at time.Time
		wantErr = at.UnmarshalText([]byte(text))
		legal := wantErr == nil && !at.Before(limits.MinTime) && at.Before(limits.MaxTime) && text != ""
		if s, err := parse("due"); (err == nil) != legal || err == nil &&
			(!s.Due.Equal(at) || s.Due.Location() != time.UTC) {
			t.Errorf("time %s: %v %v, want %v %v", value, s.Due, err, at, wantErr)
		}
		var share float64
		wantErr = json.Unmarshal(value, &share)
		x, err := ParseBeat(fmt.Appendf(nil, `{"incarnation":"","capacity":%s}`, value))
		if (err == nil) != (wantErr == nil) || err == nil && x.Capacity != share {
			t.Errorf("number %s: %v %v, want %v %v", value, x.Capacity, err, share, wantErr)
		}
	})
}

// FuzzRoundTrip: what is written is read as it was, strange text as the package comment says.
func FuzzRoundTrip(f *testing.F) {
	f.Add("files", "read", `{"a":1}`, "key", int64(1<<60), int32(5), int64(time.Minute),
		int64(1_790_000_000_123))
	f.Add("\x00\xff\"\\", "\u2028\n", "", "😀", int64(1), int32(0), int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, queue, stage, context, key string, batch int64, n int32, d,
		ms int64) {
		var raw json.RawMessage
		if c := strings.Trim(context, " \t\r\n"); json.Valid([]byte(c)) && utf8.ValidString(c) &&
			c != "null" &&
			strings.Count(c, "[")+strings.Count(c, "{") < maxDepth {
			raw = json.RawMessage(c)
		}
		at := time.UnixMilli(ms).UTC()
		if at.Before(limits.MinTime) || !at.Before(limits.MaxTime) {
			at = time.Time{}
		}
		id := task.ID{Batch: max(batch, 1), N: max(n, 0)}
		readable := func(s string) string {
			return strings.ReplaceAll(string([]rune(s)), "\x00", "\uFFFD")
		}

		meta := map[string]string{"n": key, "token": stage}
		wanted := map[string]string{"n": readable(key), "token": readable(stage)}
		subs := []task.Submission{{Queue: queue, Stage: stage, Context: raw,
			Priority: time.Duration(d), Due: at, Delay: time.Duration(d),
			Key: key, KeyFor: time.Duration(d), GroupKey: key, MaxAttempts: int(n),
			Timeout: time.Duration(d), StartWithin: time.Duration(d),
			Meta: meta}, {Queue: queue, Stage: key}, {},
			{Queue: queue, Ref: key, After: []string{stage, key}, If: task.Condition(queue)}}
		gotSubs, err := ParseSubmissions(AppendSubmissions(nil, subs))
		for i := range subs {
			s := &subs[i]
			s.Queue = readable(s.Queue)
			s.Stage = readable(s.Stage)
			s.Key = readable(s.Key)
			s.GroupKey = readable(s.GroupKey)
			s.Ref, s.If = readable(s.Ref), task.Condition(readable(string(s.If)))
			for k := range s.After {
				s.After[k] = readable(s.After[k])
			}
		}
		subs[0].Meta = wanted
		if diff := cmp.Diff(subs, gotSubs); err != nil || diff != "" {
			t.Errorf("submissions: %v %s", err, diff)
		}

		answer := task.HoldAnswer{PollInterval: time.Duration(d), Tasks: []task.Handout{
			{ID: id, Queue: queue, Stage: stage, Context: raw, Attempt: int(n), Token: "t" + key,
				Deadline: at, Ready: at, Meta: meta},
			{ID: id, Queue: queue, Token: "u", TimedOut: d%2 == 0, Signal: &task.Signal{
				Name: key, Payload: raw, By: stage, At: at,
			}, Parent: id, Children: &task.Children{
				Total: 5, Done: int64(d), Dead: ms, Cancelled: 3, Expired: 1,
			}, After: []task.Prior{
				{ID: id, Ref: key, If: task.IfDone, State: task.Done, Context: raw, Result: raw},
				{ID: id, LeftOut: true},
			}}}}
		gotAnswer, err := ParseHandouts(AppendHandouts(nil, answer))
		for i := range answer.Tasks {
			h := &answer.Tasks[i]
			h.Queue, h.Stage, h.Token = readable(h.Queue), readable(h.Stage), readable(h.Token)
		}
		answer.Tasks[0].Meta = wanted
		signal := answer.Tasks[1].Signal
		signal.Name, signal.By = readable(signal.Name), readable(signal.By)
		answer.Tasks[1].After[0].Ref = readable(key)
		if diff := cmp.Diff(answer, gotAnswer); err != nil || diff != "" {
			t.Errorf("handouts: %v %s", err, diff)
		}

		token := task.Token{Span: id.Batch, Seq: id.N}.String()
		reports := []task.Report{{ID: id, Token: token,
			Outcome: task.Outcome{Kind: task.KindNext, Stage: stage, Context: raw, Error: key}},
			{ID: id, Token: token, Outcome: task.Outcome{
				Kind: task.KindRetry, Delay: time.Duration(d), Error: key,
				HoldKey: time.Duration(d),
			}, Committed: d%2 == 0},
			{ID: id, Token: token, Outcome: task.NextOn(task.Await{
				Signal: queue, Key: key, Timeout: time.Duration(d), Else: stage,
			}, stage, raw)},
			{ID: id, Token: token, Outcome: task.NextOn(task.Await{
				Children: task.FirstDead, Timeout: time.Duration(d), Else: stage,
			}, stage, raw).Spawning(
				task.Submission{Queue: queue, Context: raw, Orphan: true},
				task.Submission{Queue: queue, Key: key},
			)}}
		worker, gotReports, err := ParseReports(AppendReports(nil, queue, reports))
		if err != nil || worker != readable(queue) || len(gotReports) != len(reports) {
			t.Fatalf("reports: %v, worker %q", err, worker)
		}
		for i, r := range reports {
			r.Stage, r.Error = readable(r.Stage), readable(r.Error)
			if a := r.Await; a != nil {
				a.Signal, a.Key, a.Else = readable(a.Signal), readable(a.Key), readable(a.Else)
			}
			for k := range r.Spawn {
				r.Spawn[k].Queue, r.Spawn[k].Key = readable(queue), readable(r.Spawn[k].Key)
			}
			want := Report{Report: r, IDText: id.String(), Invalid: limits.CheckReport(&r)}
			if diff := cmp.Diff(want, gotReports[i]); diff != "" {
				t.Errorf("report: %s", diff)
			}
		}

		hold := task.HoldRequest{Worker: queue, Queues: []string{queue, stage},
			Limit: int(n&1023) % (limits.MaxHold + 1),
			Wait:  time.Duration(d & (1<<35 - 1))}
		gotHold, err := ParseHold(AppendHold(nil, hold))
		hold.Worker, hold.Queues = readable(queue), []string{readable(queue), readable(stage)}
		if diff := cmp.Diff(hold, gotHold); err != nil || diff != "" {
			t.Errorf("hold: %v %s", err, diff)
		}

		beat := task.Beat{Incarnation: key, Capacity: float64(d),
			Labels: map[string]string{readable(queue): stage}, Zone: stage, Build: stage,
			Load: task.Load{CPU: 0.1, Memory: float64(n)}, Groups: []string{key}, Leaving: d > 0,
			Tasks: []task.Held{{ID: id, Token: "t", Progress: float64(ms), Note: key}}}
		run := task.Run{
			Group: readable(queue), Job: readable(key), Replica: int(n & 1023),
			Token: readable(stage), State: task.JobRunning, Error: readable(key), Alive: at,
		}
		beat.Jobs = []task.Run{run, {Group: "g", Job: "j", Token: "t"}}
		gotBeat, err := ParseBeat(AppendBeat(nil, beat))
		beat.Incarnation = readable(key)
		beat.Labels = map[string]string{readable(queue): readable(stage)}
		beat.Zone = readable(stage)
		beat.Build = readable(stage)
		beat.Groups, beat.Tasks[0].Note = []string{readable(key)}, readable(key)
		if diff := cmp.Diff(beat, gotBeat); err != nil || diff != "" {
			t.Errorf("beat: %v %s", err, diff)
		}

		act := task.BeatAnswer{Version: key, Beat: time.Duration(d),
			Tasks: []task.HeldAction{{ID: id, Action: task.ActionStale}},
			Jobs: task.Orders{
				Reset: d > 0,
				Add: []task.Assignment{{Group: "g", Job: readable(key), Replica: 1,
					Token: task.JobToken{Number: int64(n & (1<<30 - 1)), Seal: uint64(n)},
					Load:  1500, Spec: raw}}, End: []task.Run{run},
				Silence: max(time.Duration(d), 0), Signs: d > 0,
			}}
		gotAct, err := ParseBeatAnswer(AppendBeatAnswer(nil, act))
		act.Version = readable(key)
		if diff := cmp.Diff(act, gotAct); err != nil || diff != "" {
			t.Errorf("beat answer: %v %s", err, diff)
		}

		receipts := []task.Receipt{{ID: id, Existing: d > 0}, {ID: id, Existing: d <= 0}}
		gotReceipts, err := ParseReceipts(AppendReceipts(nil, receipts))
		if diff := cmp.Diff(receipts, gotReceipts); err != nil || diff != "" {
			t.Errorf("receipts: %v %s", err, diff)
		}

		stream := stage
		if len(readable(stage)) > MaxStream {
			stream = ""
		}
		lines := []task.LogLine{{Time: at, Stream: stream, Text: context}, {Text: queue}}
		gotLines, err := ParseLines(AppendLines(nil, lines))
		lines = []task.LogLine{
			{Time: at, Stream: readable(stream), Text: readable(context)}, {Text: readable(queue)},
		}
		if diff := cmp.Diff(lines, gotLines); err != nil || diff != "" {
			t.Errorf("lines: %v %s", err, diff)
		}
	})
}

func TestScanPlainStopsAtTheFirstByteThatIsNot(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				for _, fill := range []byte{'a', 0xff, 0x80, '!', '#', '[', ']'} {
					b := bytes.Repeat([]byte{fill}, length)
					b[at] = byte(c)
					want := length
					if c == '"' || c == '\\' || c < ' ' {
						want = at
					}
					if got := scanPlain(b, 0); got != want {
						t.Fatalf("% x: %d, want %d", b, got, want)
					}
				}
			}
		}
	}
}

// FuzzCheckValue: what CheckValue lets pass stands in a message beside others, and is read from
// there as it is; what it refuses does not.
func FuzzCheckValue(f *testing.F) {
	for _, value := range []string{`1`, ` {"a" : [1e400]} `, `hello`, `1},{"queue":"x"`, "\"\xff\"",
		`"\ud800"`, ``, ` `, `1 2`, `null`} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		b := append([]byte(`{"tasks":[{"queue":"a"},{"queue":"b","context":`), value...)
		subs, err := ParseSubmissions(append(b, `},{"queue":"c"}]}`...))
		stands := err == nil && len(subs) == 3 &&
			len(subs[1].Context) == len(bytes.TrimSpace(value)) ||
			bytes.Equal(bytes.Trim(value, " \t\r\n"), []byte("null"))
		if problem := CheckValue(value); (problem == "") != stands {
			t.Errorf("%q: %q, and among others %v", value, problem, err)
		}
	})
}
