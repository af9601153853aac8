package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// noon is when the changes below happen.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// drawn are the changes of a transaction, at random within three hours.
func drawn(rng *rand.Rand) *Changes {
	var c Changes
	name := func(kind string) string { return fmt.Sprint(kind, rng.IntN(3)) }
	for range rng.IntN(6) {
		at := noon.UnixMicro() + rng.Int64N(3*time.Hour.Microseconds())
		switch queue := name("q"); rng.IntN(4) {
		case 0:
			c.Submitted(at, queue, []store.Task{{Stage: name("s")}, {Stage: ""}, {Stage: ""}})
		case 1:
			c.Cancelled(at, queue, name("s"))
		default:
			c.Settled(queue, at-rng.Int64N(1e9), &store.Step{
				Kind: task.Kind(1 + rng.IntN(8)), Base: []int32{0, store.Final}[rng.IntN(2)],
				Ran: name("s"), Stage: name("s"), Worker: name("w"),
				Started: at, Finished: at + rng.Int64N(1e9),
			})
		}
	}
	return &c
}

// Whatever is added up when, in whichever order and pieces, the answer is that of all changes.
func TestAddingUpChangesNoAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		now := noon.Add(4 * time.Hour)
		of := []Series{{}, {Queue: "q1"}, {Queue: "q1", Stage: "s1"}, {Worker: "w1"}}
		steps := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 2 * time.Hour}
		q := Question{
			Series: of[rng.IntN(4)], From: noon.UnixMicro(), To: now.UnixMicro(),
			Step: steps[rng.IntN(4)],
		}
		raw, mixed := NewAnswer(q), NewAnswer(q)
		rows := map[Key]*Record{}
		for range 5 {
			f := NewFold(Kept{}.Complete(), now.UnixMicro())
			for range rng.IntN(8) {
				body := drawn(rng).Encode()
				if body == nil {
					continue
				}
				must(t, raw.Changes(body))
				if rng.IntN(4) == 0 { // not added up yet
					must(t, mixed.Changes(body))
				} else {
					must(t, f.Add(body))
				}
			}
			for k, r := range f.Rows() {
				if rows[k] == nil {
					rows[k] = new(Record)
				}
				rows[k].Merge(r)
			}
		}
		from, to := q.Rows()
		for k, r := range rows {
			if k.Minutes == q.Minutes() && k.Series == q.Series && k.At >= from && k.At < to {
				must(t, mixed.Row(k.At, r.Encode()))
			}
		}
		got, want := mixed.Periods(), raw.Periods()
		for i := range want {
			if got[i].At != want[i].At || got[i].String() != want[i].String() {
				t.Fatalf("%d: added up %v, each by itself %v", i, &got[i], &want[i])
			}
		}
	})
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is older than is kept is left out, and what is not is in.
func TestFoldKeepsWhatIsKept(t *testing.T) {
	f := NewFold(Kept{Minutes: time.Hour, Hours: 5 * time.Hour}, noon.UnixMicro())
	for _, ago := range []time.Duration{0, 59 * time.Minute, 2 * time.Hour, 6 * time.Hour} {
		var c Changes
		c.Cancelled(noon.Add(-ago).UnixMicro(), "q", "")
		if err := f.Add(c.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	kept := map[int]int64{}
	for k, r := range f.Rows() {
		if k.Queue == "" {
			kept[k.Minutes] += r.Cancelled
		}
	}
	if kept[Minute] != 2 || kept[Hour] != 3 {
		t.Errorf("kept %v of what happened now, an hour, two hours and six hours ago", kept)
	}
}

func TestFoldsRestLessWhenTheyAreBehind(t *testing.T) {
	for _, x := range []struct {
		took time.Duration
		left bool
		want time.Duration
	}{
		{time.Millisecond, false, foldEvery}, {time.Second, false, 30 * time.Second},
		{time.Hour, false, foldLast}, {time.Second, true, time.Second}, {time.Hour, true, foldLast},
	} {
		if got := Rest(x.took, x.left); got != x.want {
			t.Errorf("after %v, left %v: %v, want %v", x.took, x.left, got, x.want)
		}
	}
}

func TestAClockThatIsSetBackPutsNothingOff(t *testing.T) {
	now := noon.UnixMicro()
	for ago, want := range map[time.Duration]bool{
		0: true, time.Hour: true, -time.Second: false, -foldLast: false, -foldLast - 1000: true,
		-24 * time.Hour: true,
	} {
		if got := Due(now, now-ago.Microseconds()); got != want {
			t.Errorf("put off until %v ago: due %v", ago, got)
		}
	}
}

// A row that makes no sense is begun anew, with what is to be added to it.
func TestABadRowIsBegunAnew(t *testing.T) {
	var r Record
	r.Done = 2
	r.Run.Add(7)
	for body, want := range map[string]string{
		string(r.Encode()): "done 4, run 2: 7µs..7µs", "": "done 2, run 1: 7µs..7µs",
		"\x02what a later version wrote": "done 2, run 1: 7µs..7µs",
	} {
		got, err := r.Onto([]byte(body))
		if got.String() != want || (err == nil) != (body == string(r.Encode())) {
			t.Errorf("onto %q: %v, %v", body, got, err)
		}
	}
	if r.Done != 2 {
		t.Errorf("the record itself is %v now", &r)
	}
}

// A queue that has no tasks any more is noted once; a store without any is not.
func TestSamplesNoteWhatThereIs(t *testing.T) {
	queue := func(name string, ready, running int64) store.QueueCounts {
		return store.QueueCounts{Queue: name, Counts: task.Counts{Ready: ready, Running: running}}
	}
	var had map[string]bool
	for i, x := range []struct {
		list []store.QueueCounts
		want string
	}{
		{nil, ""},
		{[]store.QueueCounts{queue("a", 0, 0)}, ""},
		{[]store.QueueCounts{queue("a", 2, 1), queue("b", 0, 3), queue("c", 0, 0)},
			":2/4 a:2/1 b:0/3"},
		{[]store.QueueCounts{queue("a", 0, 0), queue("b", 0, 1), queue("c", 0, 0)},
			":0/1 a:0/0 b:0/1"},
		{[]store.QueueCounts{queue("a", 0, 0), queue("b", 0, 0)}, ":0/0 b:0/0"},
		{[]store.QueueCounts{queue("a", 0, 0), queue("b", 0, 0)}, ""},
	} {
		f := NewFold(Kept{}.Complete(), noon.UnixMicro())
		some := false
		had, some = f.Samples(x.list, had)
		got := ""
		for k, r := range f.Rows() {
			if k.Minutes == Minute {
				got += fmt.Sprintf(" %s:%d/%d", k.Queue, r.Ready-1, r.Running-1)
			}
		}
		if len(got) > 0 {
			got = got[1:]
		}
		if got != x.want || some != (x.want != "") {
			t.Errorf("%d: noted %q (%v), want %q", i, got, some, x.want)
		}
	}
}

// Stages and workers that callers invent leave room for queues, and there is always room for the
// store as a whole.
func TestRoomIsForSoManyRows(t *testing.T) {
	var stand map[Kind]int64
	rows := func(c Counted) (int64, error) { return stand[c.Kind], nil }
	queue := func(stage string) Series { return Series{Queue: "q", Stage: stage} }
	worker := Series{Worker: "w"}
	for _, x := range []struct {
		what  string
		stand map[Kind]int64
		take  []Series
		want  []bool
	}{
		{"one more stage fits", map[Kind]int64{OfStages: MostStages - 1},
			[]Series{queue("s"), queue("t"), queue(""), worker}, []bool{true, false, true, true}},
		{"workers have taken all", map[Kind]int64{OfOthers: MostOthers},
			[]Series{worker, queue("s"), queue(""), {}}, []bool{false, false, true, true}},
		{"one more queue fits", map[Kind]int64{OfQueues: MostQueues - 1},
			[]Series{queue(""), {Queue: "p"}, worker, {}}, []bool{true, false, true, true}},
	} {
		var r Room
		stand = x.stand
		for i, s := range x.take {
			if fits, err := r.Take(Key{Minute, 1, s}, rows); err != nil || fits != x.want[i] {
				t.Errorf("%s: %+v fits: %v, %v", x.what, s, fits, err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := (&Room{}).Take(Key{Series: worker}, func(Counted) (int64, error) {
		return 0, broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// What SQL writes of an outcome counts as what the settlement of one does.
func TestOutcomesOfTransactionsCountAsOthers(t *testing.T) {
	for body, step := range map[string]*store.Step{
		`{"queue":"q","stage":"s","next":"","worker":"w","ready":5000000,"started":7000000,"at":9000000}`: {
			Kind: task.KindDone, Base: store.Final, Ran: "s", Worker: "w", Started: 7e6,
			Finished: 9e6,
		},
		`{"queue":"q","stage":"s","next":"t","worker":"","ready":5000000,"started":7000000,"at":9000000}`: {
			Kind: task.KindNext, Ran: "s", Stage: "t", Started: 7e6, Finished: 9e6,
		},
	} {
		var c Changes
		c.Settled("q", 5e6, step)
		text := func(body []byte) (s string) {
			f := NewFold(Kept{Minutes: time.Hour, Hours: time.Hour}, 10e6)
			if err := f.Add(body); err != nil {
				t.Fatal(err)
			}
			for k, r := range f.Rows() {
				s += fmt.Sprintf("%+v %v\n", k, r)
			}
			return s
		}
		if got, want := text([]byte(body)), text(c.Encode()); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", body, got, want)
		}
	}
}
