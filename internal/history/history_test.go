package history

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// However long they are, quantiles are those of the durations themselves, to within a 32nd.
func TestQuantilesAreWithinA32nd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(-10, 1<<rapid.IntRange(1, 62).Draw(t, "bits")),
			1, 200).Draw(t, "durations")
		var h Histogram
		for i := range list {
			h.Add(list[i])
			list[i] = min(max(list[i], 0), longest)
		}
		slices.Sort(list)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		want := list[min(max(int(q*float64(len(list))+0.999999999)-1, 0), len(list)-1)]
		got, known := h.Quantile(q)
		if !known || h.Count() != int64(len(list)) {
			t.Fatalf("%v of %d counted %d", known, len(list), h.Count())
		}
		// the rank of a quantile between two of them may be that of either
		near := slices.ContainsFunc(list, func(d int64) bool {
			return d == want && within(got.Microseconds(), d)
		})
		if !near {
			t.Fatalf("quantile %v of %v: %v, want %d µs", q, list, got, want)
		}
	})
}

// The sum and that of the squares are those of the durations, to within what a bucket is wide.
func TestMomentsAreThoseOfTheDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		n, sum, squares := 0.0, 0.0, 0.0
		for _, d := range rapid.SliceOf(rapid.Int64Range(0, 1e10)).Draw(t, "durations") {
			h.Add(d)
			s := float64(d) / 1e6
			n, sum, squares = n+1, sum+s, squares+s*s
		}
		gotN, gotSum, gotSquares := h.Moments()
		if gotN != n || math.Abs(gotSum-sum) > sum/31 || math.Abs(gotSquares-squares) > squares/15 {
			t.Fatalf("%v durations of %v s, squares %v; want %v, %v, %v", gotN, gotSum, gotSquares,
				n, sum, squares)
		}
	})
}

// Whatever the bounds are, each counts those that do not exceed it, to within a 32nd of it.
func TestWithinCountsWhatDoesNotExceedABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.Int64Range(0, 1e9)).Draw(t, "durations")
		micros := rapid.SliceOf(rapid.Int64Range(0, 2e9)).Draw(t, "bounds")
		slices.Sort(micros)
		var bounds []time.Duration
		for _, m := range micros {
			bounds = append(bounds, time.Duration(m)*time.Microsecond)
		}
		var h Histogram
		sum := int64(0)
		for _, d := range list {
			h.Add(d)
			sum += d
		}
		got, within := h.Within(bounds)
		if off := int64(got*1e6) - sum; off > sum/32+1 || -off > sum/32+1 {
			t.Fatalf("the sum of %v: %v", list, got)
		}
		for i, m := range micros {
			least, most := int64(0), int64(0)
			for _, d := range list {
				if d+d/32+1 <= m {
					least++
				}
				if d-d/32-1 <= m {
					most++
				}
			}
			if within[i] < least || within[i] > most {
				t.Fatalf("%v within %v: %d, want %d to %d", list, bounds[i], within[i], least, most)
			}
		}
	})
}

// The sum of many long durations is more than a time.Duration holds.
func TestSumsOfMillionsDoNotOverflow(t *testing.T) {
	var h Histogram
	h.Add(time.Hour.Microseconds())
	for range 24 { // 16 million hours
		h.Merge(&h)
	}
	if got, _ := h.Within(nil); got < 1<<24*3600*0.96 || got > 1<<24*3600*1.04 {
		t.Errorf("%d hours are %v s", h.Count(), got)
	}
}

// within tells whether a number is another one to within a 32nd of that.
func within(got, want int64) bool {
	if want < 2*subBuckets {
		return got == want
	}
	return got-want <= want/32+1 && want-got <= want/32+1
}

func TestBucketsCoverEveryDurationOnce(t *testing.T) {
	last := uint16(0)
	for micros := int64(0); micros < 1<<20; micros++ {
		b := bucketOf(micros)
		if b != last && b != last+1 {
			t.Fatalf("%d is in bucket %d, the one before in %d", micros, b, last)
		}
		if !within(middle(b), micros) {
			t.Fatalf("%d is in bucket %d, whose middle is %d", micros, b, middle(b))
		}
		last = b
	}
	if b := bucketOf(1<<63 - 1); b != buckets-1 {
		t.Errorf("the last of all microseconds are in bucket %d of %d", b, buckets)
	}
	var none Histogram
	if _, known := none.Quantile(0.5); known {
		t.Error("half of nothing is known")
	}
}

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

func TestQuestionsThatMakeNoSenseAreRefused(t *testing.T) {
	kept := Kept{}.Complete()
	for _, x := range []struct {
		series   Series
		from, to time.Duration // before now
		step     time.Duration
		want     error
		periods  int
	}{
		{Series{}, time.Hour, 0, time.Minute, nil, 60},
		{Series{Queue: "q", Stage: "s"}, 90 * time.Second, 0, time.Minute, nil, 2},
		{Series{}, 24 * time.Hour, 0, time.Minute, nil, 1440},
		{Series{}, 26 * time.Hour, 0, time.Minute, ErrPeriods, 0},
		{Series{}, 25 * time.Hour, 0, 2 * time.Minute, ErrMinutes, 0},
		{Series{}, 90 * 24 * time.Hour, 0, 2 * time.Hour, nil, 1080},
		{Series{}, 91 * 24 * time.Hour, 0, 2 * time.Hour, ErrKept, 0},
		{Series{}, 91 * 24 * time.Hour, 0, 24 * time.Hour, nil, 92},
		{Series{}, time.Minute, time.Minute, time.Minute, ErrRange, 0},
		{Series{}, time.Hour, 0, time.Second, ErrStep, 0},
		{Series{}, time.Hour, 0, 0, ErrStep, 0},
		{Series{}, time.Hour, 0, -time.Minute, ErrStep, 0},
		{Series{Stage: "s"}, time.Hour, 0, time.Minute, ErrSeries, 0},
		{Series{Queue: "q", Worker: "w"}, time.Hour, 0, time.Minute, ErrSeries, 0},
	} {
		q, err := NewQuestion(x.series, noon.Add(-x.from), noon.Add(-x.to), x.step, kept, noon)
		if !errors.Is(err, x.want) || err == nil && len(NewAnswer(q).Periods()) != x.periods {
			t.Errorf("%+v: %v, %d periods", x, err, len(NewAnswer(q).Periods()))
		}
	}
}

// However far into what is to come a question goes, few rows are looked for.
func TestRowsToComeAreNotLookedFor(t *testing.T) {
	q, err := NewQuestion(Series{}, noon.Add(-time.Hour), noon.Add(1400*31*24*time.Hour),
		31*24*time.Hour, Kept{}.Complete(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if from, to := q.Rows(); to-from > 31*24+3 || len(NewAnswer(q).Periods()) < 1400 {
		t.Errorf("rows %d to %d, %d periods", from, to, len(NewAnswer(q).Periods()))
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

// A body that was cut, or is of nobody's, is an error and adds nothing; a later version's may have
// more counts.
func TestBodiesThatMakeNoSenseAddNothing(t *testing.T) {
	var c Changes
	c.Submitted(noon.UnixMicro(), "q", []store.Task{{Stage: "s"}})
	c.Settled("q", 1, &store.Step{
		Kind: task.KindDone, Base: store.Final, Started: noon.UnixMicro(),
		Finished: noon.UnixMicro() + 1e6,
	})
	whole := c.Encode()
	for cut := range whole {
		f := NewFold(Kept{}.Complete(), noon.UnixMicro())
		err := f.Add(whole[:cut])
		rows := 0
		for range f.Rows() {
			rows++
		}
		if cut > 1 && err == nil && rows == 0 || err != nil && rows > 0 {
			t.Errorf("cut at %d of %d: %v, and %d rows", cut, len(whole), err, rows)
		}
	}
	for _, body := range []string{"", "x", "{", "\x02", "\x01\x00\xff"} {
		if err := NewFold(Kept{}, 0).Add([]byte(body)); err == nil {
			t.Errorf("%q was taken", body)
		}
		if _, err := Decode([]byte(body)); err == nil {
			t.Errorf("%q is a record", body)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var r Record
	r.Done, r.Ready = 3, 4
	r.Wait.Add(70)
	r.Wait.Add(1e9)
	f.Add(r.Encode())
	f.Add(drawn(rand.New(rand.NewPCG(1, 2))).Encode())
	f.Add([]byte(`{"queue":"q","at":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, err := Decode(body); err == nil {
			again, err := Decode(got.Encode())
			if err != nil || again.String() != got.String() {
				t.Errorf("%q: %v, written and read again %v, %v", body, got, again, err)
			}
		}
		// neither panics, nor takes memory that the body does not pay for
		_ = NewFold(Kept{}.Complete(), noon.UnixMicro()).Add(body)
		_ = NewAnswer(Question{From: 0, To: 60e6, Step: time.Minute}).Changes(body)
	})
}

// BenchmarkSettled counts the outcomes of one settlement, and writes down what they changed: 400,
// of four workers.
func BenchmarkSettled(b *testing.B) {
	steps := make([]store.Step, 400)
	for i := range steps {
		steps[i] = store.Step{
			Kind: task.KindDone, Base: store.Final, Ran: "first", Worker: fmt.Sprint("w", i/100),
			Started:  noon.UnixMicro() + int64(i)*37,
			Finished: noon.UnixMicro() + 2000 + int64(i)*41,
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		var c Changes
		for i := range steps {
			c.Settled("mail", steps[i].Started-1000, &steps[i])
		}
		b.SetBytes(int64(len(c.Encode())))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/400, "ns/outcome")
}

// BenchmarkFold adds up what 1,000 submissions and 1,000 settlements of 400 tasks changed.
func BenchmarkFold(b *testing.B) {
	var submitted, settled Changes
	tasks := make([]store.Task, 400)
	submitted.Submitted(noon.UnixMicro(), "mail", tasks)
	for i := range tasks {
		at := noon.UnixMicro() + int64(i)*37
		settled.Settled("mail", at-1000-int64(i)*51, &store.Step{
			Kind: task.KindDone, Base: store.Final, Worker: "w", Started: at,
			Finished: at + 2000 + int64(i)*41,
		})
	}
	bodies := [][]byte{submitted.Encode(), settled.Encode()}
	b.ReportAllocs()
	for b.Loop() {
		f := NewFold(Kept{}.Complete(), noon.UnixMicro())
		for i := range 2000 {
			if err := f.Add(bodies[i%2]); err != nil {
				b.Fatal(err)
			}
		}
		for _, r := range f.Rows() {
			r.Encode()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000/400, "ns/task")
}
