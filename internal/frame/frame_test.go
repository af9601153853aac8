package frame

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

var update = flag.Bool("update", false, "write testdata/golden.txt")

var (
	moment = time.Date(2026, 10, 1, 12, 0, 0, 123e6, time.UTC)
	first  = task.ID{Batch: 1811939328000 << 10, N: 7}
)

func token(seq int32, seal uint64) string {
	return task.Token{Span: 500, SpanToken: 12, Seq: seq, Seal: seal, Owner: seal * 3}.String()
}

var someTasks = []task.Submission{
	{Queue: "mail", Context: json.RawMessage(`{"to":"ann"}`)},
	{Queue: "mail", Context: json.RawMessage(`{"to":"bob"}`), Key: "bob"},
	{Queue: "mail"},
	{Queue: "scan", Stage: "read", Context: json.RawMessage(`1e400`), Priority: time.Minute,
		Due: moment, Key: "k", KeyFor: time.Hour, GroupKey: "g", MaxAttempts: 3,
		Timeout: 1500 * time.Millisecond},
	{Queue: "scan", Delay: -time.Second},
	{Queue: "scan", Meta: map[string]string{"customer": "7", "region": ""}},
	{Queue: "scan", StartWithin: 30 * time.Second},
	{Queue: "scan", Unique: &task.Unique{Key: "k", While: task.WhileWaiting, For: time.Hour},
		OnExisting: task.OnExistingDebounce},
	{Queue: "scan", Unique: &task.Unique{Key: "l"}},
	{Queue: "scan", Ref: "read"},
	{Queue: "scan", Ref: "both", After: []string{"read", first.String()}, If: task.IfEnded},
	{Queue: "scan", After: []string{"both"}, If: task.IfEnded},
}

var someHandouts = Handouts{
	Now: moment, HoldAnswer: task.HoldAnswer{PollInterval: 10 * time.Second, Tasks: []task.Handout{
		{ID: first, Queue: "mail", Context: json.RawMessage(`{"to":"ann"}`), Attempt: 1,
			Token: token(0, 1<<60), Deadline: moment},
		{ID: after(first), Queue: "mail", Attempt: 1, Token: token(0, 1<<61), Deadline: moment},
		{ID: task.ID{Batch: 5, N: 1 << 30}, Queue: "scan", Stage: "read", Attempt: 4,
			Token: token(9, 3), ContextBy: "w2", InScope: true},
		{ID: task.ID{Batch: 5, N: 1<<30 + 1}, Queue: "scan", Stage: "read", Attempt: 1,
			Token: token(9, 4), Meta: map[string]string{"customer": "7"}},
		{ID: task.ID{Batch: 5, N: 1<<30 + 2}, Queue: "scan", Stage: "ship", Attempt: 2,
			Token: token(9, 5), Deadline: moment, Ready: moment.Add(-time.Minute),
			Signal: &task.Signal{
				Name: "paid", Payload: json.RawMessage(`{"euro":7}`), By: "ann", At: moment,
			}},
		{ID: task.ID{Batch: 5, N: 1<<30 + 3}, Queue: "scan", Stage: "ship", Attempt: 1,
			Token: token(9, 6), Signal: &task.Signal{Name: "paid"}},
		{ID: task.ID{Batch: 5, N: 1<<30 + 4}, Queue: "scan", Stage: "remind", Attempt: 1,
			Token: token(9, 7), TimedOut: true},
		{ID: task.ID{Batch: 5, N: 1<<30 + 5}, Queue: "scan", Stage: "join", Attempt: 1,
			Token: token(9, 8), Parent: first, Children: &task.Children{
				Total: 1000, Done: 990, Dead: 4, Cancelled: 3, Expired: 3,
			}},
		{ID: task.ID{Batch: 5, N: 1<<30 + 6}, Queue: "scan", Stage: "join", Attempt: 1,
			Token: token(9, 9), After: []task.Prior{
				{ID: first, Ref: "read", If: task.IfDone, State: task.Done,
					Context: json.RawMessage(`{"page":1}`), Result: json.RawMessage(`[7]`)},
				{ID: after(first), State: task.Cancelled, If: task.IfEnded, LeftOut: true},
			}},
	}},
}

var someReports = []task.Report{
	{ID: first, Token: token(0, 1<<60), Outcome: task.Outcome{Kind: task.KindDone}},
	{ID: after(first), Token: token(0, 1<<61), Outcome: task.Outcome{
		Kind: task.KindDone, Result: json.RawMessage(`{"sent":true}`)}, Committed: true},
	{ID: task.ID{Batch: 5, N: 1 << 30}, Token: token(9, 3), Outcome: task.Outcome{
		Kind: task.KindNext, Stage: "write", Context: json.RawMessage(`[]`), Delay: time.Minute}},
	{ID: first, Token: token(2, 2), Outcome: task.Outcome{Kind: task.KindFail, Error: "no"}},
	{ID: first, Token: token(2, 3), Outcome: task.NextOn(task.Await{
		Signal: "paid", Key: "order 7", Timeout: time.Hour, Else: "remind",
	}, "ship", nil)},
	{ID: first, Token: token(2, 4), Outcome: task.NextOn(task.Await{Signal: "paid"}, "ship", nil)},
	{ID: first, Token: token(2, 5), Outcome: task.NextOn(task.Await{
		Children: task.FirstDead, Timeout: time.Hour, Else: "late",
	}, "join", nil).Spawning(
		task.Submission{Queue: "page", Context: json.RawMessage(`"a"`), Key: "a"},
		task.Submission{Queue: "page", Orphan: true},
	)},
	{ID: first, Token: token(2, 6), Outcome: task.Finish(nil).Spawning(
		task.Submission{Queue: "page"})},
	{ID: first, Token: token(2, 7), Outcome: task.RetryAfter(time.Second, nil).HoldingKey(
		30 * time.Second)},
}

func whole(b []byte, cuts []wire.Cut) []byte {
	var out []byte
	from := 0
	for _, c := range cuts {
		out = append(append(out, b[from:c.At]...), c.Value...)
		from = c.At
	}
	return append(out, b[from:]...)
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	for _, long := range []int{0, 1 << 20} {
		subs, err := ParseSubmissions(whole(CutSubmissions(nil, someTasks, long)))
		if err != nil || !reflect.DeepEqual(subs, someTasks) {
			t.Errorf("submissions: %v\n%+v", err, subs)
		}
		held, err := ParseHandouts(whole(CutHandouts(nil, someHandouts, long)))
		if err != nil || !reflect.DeepEqual(held, someHandouts) {
			t.Errorf("hand-outs: %v\n%+v", err, held)
		}
		worker, reports, err := ParseReports(whole(CutReports(nil, "w1", someReports, long)))
		if err != nil || worker != "w1" || len(reports) != len(someReports) {
			t.Fatalf("reports: %v, of %q: %+v", err, worker, reports)
		}
		for i, r := range reports {
			if !reflect.DeepEqual(r.Report, someReports[i]) || r.Invalid != "" {
				t.Errorf("report %d: %+v", i, r)
			}
		}
	}
	hold := task.HoldRequest{
		Worker: "w1", Queues: []string{"mail", "scan"}, Limit: 50, Wait: time.Minute, Ahead: 3,
		Incarnation: "i",
	}
	if got, err := ParseHold(AppendHold(nil, hold)); err != nil || !reflect.DeepEqual(got, hold) {
		t.Errorf("hold: %v\n%+v", err, got)
	}
	beat := task.Beat{
		Worker: "w1", Wait: time.Second, Version: "v", Incarnation: "i", Capacity: 2.5,
		Tasks: []task.Held{{ID: first, Token: token(0, 1), Progress: .5, Note: "half"}},
	}
	if got, err := ParseBeat(AppendBeat(nil, beat)); err != nil || !reflect.DeepEqual(got, beat) {
		t.Errorf("beat: %v\n%+v", err, got)
	}
	receipts := []task.Receipt{
		{ID: first, Action: task.SubmittedCreated},
		{ID: after(first), Action: task.SubmittedCreated},
		{ID: task.ID{Batch: 4, N: 2}, Existing: true, Action: task.SubmittedKept},
		{ID: task.ID{Batch: 4, N: 3}, Existing: true, Action: task.SubmittedReplaced},
		{ID: task.ID{Batch: 4, N: 4}, Existing: true, Action: task.SubmittedDebounced},
		{ID: first, Action: task.SubmittedCreated},
	}
	if got, err := ParseReceipts(AppendReceipts(nil, receipts)); err != nil ||
		!reflect.DeepEqual(got, receipts) {
		t.Errorf("receipts: %v\n%+v", err, got)
	}
	answers, err := ParseAnswers(AppendAnswers(nil, []wire.Answer{
		{Status: task.Recorded}, {Status: task.Recorded}, {Status: task.Stale, Detail: "late"},
	}))
	if want := []task.Answer{
		{Status: task.Recorded}, {Status: task.Recorded}, {Status: task.Stale, Detail: "late"},
	}; err != nil || !reflect.DeepEqual(answers, want) {
		t.Errorf("answers: %v\n%+v", err, answers)
	}
	spawned := []wire.Answer{
		{Status: task.Recorded},
		{Status: task.Recorded, Spawned: []task.ID{first, after(first), first}},
		{Status: task.Recorded}, {Status: task.Repeated, Spawned: []task.ID{{Batch: 5, N: 0}}},
	}
	answers, err = ParseAnswers(AppendAnswers(nil, spawned))
	if err != nil || len(answers) != len(spawned) {
		t.Fatalf("answers with children: %v\n%+v", err, answers)
	}
	for i, a := range answers {
		if !reflect.DeepEqual(a.Spawned, spawned[i].Spawned) || a.Status != spawned[i].Status {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	refused := Refused{Status: 503, RetryAfter: time.Second, Problem: []byte(`{"status":503}`)}
	if got, err := ParseRefused(AppendRefused(nil, refused)); err != nil ||
		!reflect.DeepEqual(got, refused) {
		t.Errorf("refusal: %v\n%+v", err, got)
	}
	for _, h := range []Header{{MaxPiece, 1<<32 - 1, Submit, true}, {0, 1, Ping, false}} {
		if got, err := ParseHeader(AppendHeader(nil, h)); err != nil || got != h {
			t.Errorf("header: %v, %v", got, err)
		}
	}
	if _, err := ParseHeader(AppendHeader(nil, Header{Size: MaxPiece + 1})); err == nil {
		t.Error("a piece that is too long has a good header")
	}
}

// The bytes are a promise to other languages: docs/stream.md describes them.
func TestBytesStayAsTheyAre(t *testing.T) {
	const name = "testdata/golden.txt"
	var got bytes.Buffer
	for _, m := range []struct {
		name string
		body []byte
	}{
		{"submit", whole(CutSubmissions(nil, someTasks, 1<<20))},
		{"receipts", AppendReceipts(nil, []task.Receipt{{ID: first}, {ID: after(first)}})},
		{"hold", AppendHold(nil, task.HoldRequest{Worker: "w1", Queues: []string{"mail"}, Limit: 9,
			Wait: time.Second})},
		{"hand-outs", whole(CutHandouts(nil, someHandouts, 1<<20))},
		{"report", whole(CutReports(nil, "w1", someReports, 1<<20))},
		{"answers", AppendAnswers(nil, []wire.Answer{{Status: task.Recorded}, {Status: task.Stale,
			Detail: "late"}})},
		{"answers with children", AppendAnswers(nil, []wire.Answer{
			{Status: task.Recorded},
			{Status: task.Recorded, Spawned: []task.ID{first, after(first), {Batch: 5}}},
		})},
		{"beat", AppendBeat(nil, task.Beat{Worker: "w1", Incarnation: "i", Wait: time.Second})},
		{"refusal", AppendRefused(nil, Refused{503, time.Second, []byte(`{}`)})},
		{"header", AppendHeader(nil, Header{Size: 258, ID: 3, Kind: Report, More: true})},
	} {
		fmt.Fprintf(&got, "%s\n%s\n", m.name, hex.Dump(m.body))
	}
	if *update {
		if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the bytes changed; run go test ./internal/frame -update and read the diff of %s\n%s",
			name, got.String())
	}
}

// A fault has the place that it has in JSON, and is of the same sort.
func TestFaultsNameTheirPlace(t *testing.T) {
	submit := func(s task.Submission) []byte {
		return whole(CutSubmissions(nil, []task.Submission{{Queue: "a"}, s}, 1<<20))
	}
	short := func(b []byte) []byte { return b[:len(b)-1] }
	_, ofSubmit := 0, func(b []byte) error { _, err := ParseSubmissions(b); return err }
	ofHold := func(b []byte) error { _, err := ParseHold(b); return err }
	ofReport := func(b []byte) error { _, _, err := ParseReports(b); return err }
	for _, c := range []struct {
		name  string
		parse func([]byte) error
		body  []byte
		place string
		value bool
	}{
		{"context", ofSubmit, submit(task.Submission{Queue: "a", Context: []byte(`{"a":}`)}),
			"body.tasks[1].context", false},
		{"due", ofSubmit, submit(task.Submission{Due: time.Unix(0, 0)}), "body.tasks[1].due", true},
		{"field", ofSubmit, []byte{1, 0x80, 0x80, 0x20}, "body.tasks[0]", false},
		{"end", ofSubmit, append(submit(task.Submission{}), 0), "body", false},
		{"meta that is cut", ofSubmit,
			short(submit(task.Submission{Meta: map[string]string{"a": "b"}})),
			"body.tasks[1].meta.a", false},
		{"meta of one name twice", ofSubmit,
			bytes.Replace(submit(task.Submission{Meta: map[string]string{"a": "", "b": ""}}),
				[]byte("b"), []byte("a"), 1), "body.tasks[1].meta.a", false},
		{"count", ofSubmit, []byte{0xff, 0xff, 3}, "body.tasks", true},
		{"early", ofSubmit, []byte{1, subQueue, 5, 'a'}, "body.tasks[0].queue", false},
		{"text", ofSubmit, []byte{1, subQueue, 1, 0xff}, "body.tasks[0].queue", false},
		{"NUL", ofSubmit, []byte{1, subQueue, 1, 0}, "body.tasks[0].queue", false},
		{"limit", ofHold, AppendHold(nil, task.HoldRequest{Limit: -1}), "body.limit", true},
		{"wait", ofHold, AppendHold(nil, task.HoldRequest{Wait: time.Hour}), "body.wait", true},
		{"ahead", ofHold, AppendHold(nil, task.HoldRequest{Ahead: 5000}), "body.ahead", true},
		{"result", ofReport, whole(CutReports(nil, "w", []task.Report{{ID: first,
			Outcome: task.Outcome{Kind: task.KindDone, Result: []byte("x")}}}, 99)),
			"body.reports[0].result", false},
		{"child", ofReport, whole(CutReports(nil, "w", []task.Report{{}, {ID: first,
			Outcome: task.Finish(nil).Spawning(task.Submission{},
				task.Submission{Queue: "a", Context: []byte("x")})}}, 99)),
			"body.reports[1].spawn[1].context", false},
		{"children", ofReport, whole(CutReports(nil, "w", []task.Report{
			{ID: first, Outcome: task.Outcome{Spawn: make([]task.Submission, 6000)}},
			{ID: first, Outcome: task.Outcome{Spawn: make([]task.Submission, 6000)}},
		}, 99)), "body.reports[1].spawn", true},
		{"token", ofReport, []byte{1, 0, 0, 9, 0}, "body.reports[0].token", false},
	} {
		var fault *wire.Error
		if err := c.parse(c.body); !errors.As(err, &fault) || len(fault.Fields) != 1 ||
			fault.Fields[0].Location != c.place || fault.Value != c.value {
			t.Errorf("%s: %+v, want a fault at %s", c.name, err, c.place)
		}
	}
}

// One bad report spoils no other, and is called what it is called in JSON.
func TestBadReportsAreInvalidAsInJSON(t *testing.T) {
	reports := []task.Report{
		{Token: token(0, 1), Outcome: task.Outcome{Kind: task.KindDone}},
		{ID: task.ID{Batch: -4, N: 1}, Token: token(0, 1), Outcome: task.Finish(nil)},
		{ID: task.ID{Batch: 4, N: -1}, Token: token(0, 1), Outcome: task.Finish(nil)},
		{ID: first, Token: "no token", Outcome: task.Outcome{Kind: task.KindDone}},
		{ID: first, Token: token(0, 1), Outcome: task.Outcome{Kind: task.KindNext}},
		{ID: first, Token: token(0, 1), Outcome: task.Outcome{Kind: task.KindLost}},
		{ID: first, Token: token(0, 1), Outcome: task.Outcome{}},
		{ID: first, Token: token(0, 1), Outcome: task.Retry(nil), Committed: true},
		{ID: first, Token: token(0, 1), Outcome: task.Outcome{Kind: task.KindDone}},
	}
	_, got, err := ParseReports(whole(CutReports(nil, "w", reports, 99)))
	if err != nil {
		t.Fatal(err)
	}
	_, want, err := wire.ParseReports(wire.AppendReports(nil, "w", reports))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i].Invalid != want[i].Invalid {
			t.Errorf("report %d: %q, in JSON %q", i, got[i].Invalid, want[i].Invalid)
		}
	}
}

// What a strange program says must not spoil the message that carries it, and means what it means
// in JSON.
func TestStrangeTextsAreCleanedAsInJSON(t *testing.T) {
	strange := "a\x00b\xff\xfe\xed\xa0\x80c"
	reports := []task.Report{{ID: first, Token: token(0, 1),
		Outcome: task.Outcome{Kind: task.KindFail, Error: strange}}}
	_, got, err := ParseReports(whole(CutReports(nil, "w", reports, 99)))
	if err != nil {
		t.Fatal(err)
	}
	_, want, err := wire.ParseReports(wire.AppendReports(nil, "w", reports))
	if err != nil || got[0].Error != want[0].Error {
		t.Errorf("%q, in JSON %q (%v)", got[0].Error, want[0].Error, err)
	}
}

// A hand-out that can't be read costs the others nothing.
func TestBrokenContextIsAFaultOfItsHandOut(t *testing.T) {
	a := someHandouts
	a.Tasks = append([]task.Handout(nil), a.Tasks...)
	a.Tasks[1].Context = []byte(`{"half`)
	got, err := ParseHandouts(whole(CutHandouts(nil, a, 99)))
	if err != nil || len(got.Tasks) != len(a.Tasks) || got.Tasks[1].Token != a.Tasks[1].Token ||
		!strings.Contains(got.Tasks[1].Fault, "context") || got.Tasks[1].Queue != "" ||
		!reflect.DeepEqual(got.Tasks[2], a.Tasks[2]) {
		t.Errorf("%v\n%+v", err, got)
	}
}

// What a body makes is bounded: a list of many small elements, and tokens that share much.
func TestMemoryIsBoundedByTheBody(t *testing.T) {
	many := append([]byte{0x90, 0x4e}, make([]byte, 10_000)...) // 10,000 tasks of one byte each
	reports := manyReports(10_000)
	for _, c := range []struct {
		name  string
		items int
		body  []byte
		parse func([]byte) error
	}{
		{"submissions", Items(Submit, many), many, func(b []byte) error {
			_, err := ParseSubmissions(b)
			return err
		}},
		{"reports", Items(Report, reports), reports, func(b []byte) error {
			_, _, err := ParseReports(b)
			return err
		}},
		{"too many", 0, []byte{0xff, 0xff, 0xff, 0xff, 0xf}, func(b []byte) error {
			if _, err := reportsOf(b); err == nil {
				return errors.New("read")
			}
			return nil
		}},
	} {
		result := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				if err := c.parse(c.body); err != nil {
					b.Fatal(err)
				}
			}
		})
		most := int64(len(c.body)+c.items*ItemCost) + 8192
		if got := result.AllocedBytesPerOp(); got > most {
			t.Errorf("%s: %d bytes of memory for a body of %d with %d items, at most %d", c.name,
				got, len(c.body), c.items, most)
		}
	}
}

// manyReports is a body of many reports whose tokens are nearly the same.
func manyReports(n int) []byte {
	reports := make([]task.Report, n)
	for i := range reports {
		reports[i] = task.Report{
			ID: task.ID{Batch: first.Batch, N: int32(i)}, Token: token(0, 1<<63),
			Outcome: task.Finish(nil),
		}
	}
	return whole(CutReports(nil, "w", reports, 99))
}

// reportsOf is ParseReports without its worker.
func reportsOf(b []byte) ([]wire.Report, error) {
	_, r, err := ParseReports(b)
	return r, err
}

func BenchmarkParse(b *testing.B) {
	subs := make([]task.Submission, 100)
	reports := make([]task.Report, 100)
	held := Handouts{Now: moment, HoldAnswer: task.HoldAnswer{Tasks: make([]task.Handout, 100)}}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range subs {
		context := json.RawMessage(fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat("x", 80)))
		id := task.ID{Batch: first.Batch, N: int32(i)}
		subs[i] = task.Submission{Queue: "bench", Context: context}
		reports[i] = task.Report{ID: id, Token: token(0, random.Uint64()),
			Outcome: task.Outcome{Kind: task.KindDone}}
		held.Tasks[i] = task.Handout{ID: id, Queue: "bench", Context: context, Attempt: 1,
			Token: reports[i].Token, Deadline: moment}
	}
	for _, c := range []struct {
		name  string
		body  []byte
		parse func([]byte) error
	}{
		{"Submissions", whole(CutSubmissions(nil, subs, 1<<20)), func(b []byte) error {
			_, err := ParseSubmissions(b)
			return err
		}},
		{"Handouts", whole(CutHandouts(nil, held, 1<<20)), func(b []byte) error {
			_, err := ParseHandouts(b)
			return err
		}},
		{"Reports", whole(CutReports(nil, "w", reports, 1<<20)), func(b []byte) error {
			_, _, err := ParseReports(b)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.body)))
			for b.Loop() {
				if err := c.parse(c.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
