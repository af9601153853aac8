package wire

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rotahq/rota/task"
)

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
