package pack_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/task"
)

func Example() {
	tasks := []store.Task{
		{N: 0, Stage: "send", Context: store.Value(`{"to":"ada"}`)},
		{N: 1, Stage: "send", Context: store.Value(`{"to":"bob"}`)},
		{N: 3, Stage: "send", Context: store.Value(`{"to":"eve"}`)},
	}
	body, has, n := pack.AppendTasks(nil, tasks)
	fmt.Printf("%d tasks in %d bytes, bits %04b\n", n, len(body), has)

	mark, bits := pack.AppendDone(nil, []pack.Done{
		{N: 0, Worker: "w1", Token: 7, Started: 1_000, Finished: 1_250},
		{N: 3, Worker: "w1", Token: 7, Started: 1_100, Finished: 1_300},
	})
	fmt.Printf("%d are done, in %d bytes\n", bits.Len(), len(mark))
	for n := range (has &^ bits).Numbers(0) {
		t, _, _ := pack.FindTask(body, has, n)
		fmt.Printf("task %d is not: %s\n", n, t.Context)
	}
	// Output:
	// 3 tasks in 47 bytes, bits 1011
	// 2 are done, in 21 bytes
	// task 1 is not: {"to":"bob"}
}

func TestBitsOfAPack(t *testing.T) {
	for _, test := range []struct {
		first, lo, hi int32
		want          pack.Bits
	}{
		{0, 0, 63, math.MaxUint64}, {0, 0, 0, 1}, {0, 63, 63, 1 << 63}, {64, 0, 63, 0},
		{64, 0, 64, 1}, {64, 127, 500, 1 << 63}, {64, 70, 69, 0}, {128, 0, 1 << 30, math.MaxUint64},
		{64, 66, 67, 0b1100},
	} {
		if got := pack.Between(test.first, test.lo, test.hi); got != test.want {
			t.Errorf("Between(%d, %d, %d) = %b, want %b", test.first, test.lo, test.hi, got,
				test.want)
		}
	}
	for n, want := range map[int32]int32{0: 0, 63: 0, 64: 64, 127: 64, math.MaxInt32: 1<<31 - 64} {
		if got := pack.Lo(n); got != want || !pack.Bit(n).Has(n) {
			t.Errorf("Lo(%d) = %d, want %d", n, got, want)
		}
	}
}

// bitsLaw: the numbers of Between are those of the range that belong to the pack.
func TestBetweenIsWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := 64 * rapid.Int32Range(0, 3).Draw(t, "pack")
		lo, hi := rapid.Int32Range(0, 300).Draw(t, "lo"), rapid.Int32Range(0, 300).Draw(t, "hi")
		var want []int32
		for n := first; n < first+pack.Size; n++ {
			if lo <= n && n <= hi {
				want = append(want, n)
			}
		}
		bits := pack.Between(first, lo, hi)
		if got := slices.Collect(bits.Numbers(first)); !slices.Equal(got, want) ||
			bits.Len() != len(want) || len(want) > 0 && bits.Last(first) != want[len(want)-1] ||
			len(want) == 0 && bits.Last(first) != first-1 {
			t.Fatalf("Between(%d, %d, %d): %v, want %v", first, lo, hi, got, want)
		}
	})
}

// Runs are the numbers, in as few pieces as can be.
func TestRunsAreTheNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := pack.Bits(rapid.Uint64().Draw(t, "bits"))
		var got pack.Bits
		before := int32(62)
		for from, to := range bits.Runs(64) {
			if from <= before+1 || to < from {
				t.Fatalf("run %d to %d after %d", from, to, before)
			}
			got |= pack.Between(64, from, to)
			before = to
		}
		if got != bits {
			t.Fatalf("runs of %b, want %b", got, bits)
		}
	})
}

// value draws a context or a result; nil now and then.
func value(t *rapid.T, most int) store.Value {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	return slices.Clone(rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "value"))
}

// numbers draws ascending numbers of one pack.
func numbers(t *rapid.T) []int32 {
	lo := 64 * rapid.Int32Range(0, 5).Draw(t, "pack")
	bits := pack.Bits(rapid.Uint64Min(1).Draw(t, "bits"))
	return slices.Collect(bits.Numbers(lo))
}

func TestTasksComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 5, 20)
		var want []store.Task
		for _, n := range numbers(t) {
			want = append(want, store.Task{
				N: n, Stage: rapid.SampledFrom([]string{"a", "b", "ü"}).Draw(t, "stage"),
				Context: value(t, 700), Key: text.Draw(t, "key"), GroupKey: text.Draw(t, "group"),
				MaxAttempts: rapid.Int32().Draw(t, "attempts"),
				Timeout:     rapid.Int64().Draw(t, "timeout"),
				StartWithin: rapid.SampledFrom([]int64{0, 0, 1, 30e6, 1 << 50}).Draw(t, "in"),
				Meta: store.Meta(rapid.SampledFrom([]string{
					"", "", `{"a":"1"}`, `{"a":"2"}`, `{"b":"ü"}`,
				}).Draw(t, "meta")),
			})
		}
		var got []store.Task
		for rest := want; len(rest) > 0; {
			body, has, n := pack.AppendTasks(nil, rest)
			if n < 1 || has.Len() != n {
				t.Fatalf("%d tasks with bits %b", n, has)
			}
			if last := rest[n-1]; n < len(rest) && len(body) < pack.BodyLimit {
				t.Fatalf("a row of %d bytes ends at %d, with room for more", len(body), last.N)
			}
			err := pack.EachTask(body, rest[0].N, has, func(k *store.Task) bool {
				one := *k
				one.Context = bytes.Clone(k.Context)
				got = append(got, one)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range rest[:n] {
				found, ok, err := pack.FindTask(body, has, rest[i].N)
				if diff := cmp.Diff(rest[i], found); diff != "" || !ok || err != nil {
					t.Fatalf("find %d: %v %v\n%s", rest[i].N, ok, err, diff)
				}
			}
			out := has & pack.Bits(rapid.Uint64().Draw(t, "out"))
			thin, err := pack.Thin(body, rest[0].N, has, out)
			for i := range rest[:n] {
				found, ok, bad := pack.FindTask(thin, has&^out, rest[i].N)
				if err = errors.Join(err, bad); ok && !cmp.Equal(rest[i], found) ||
					ok == out.Has(rest[i].N) || err != nil {
					t.Fatalf("find %d, without %b: %v %v", rest[i].N, out, ok, err)
				}
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestOutcomesComeBackAsTheyWent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		var all pack.Bits
		want := map[int32]pack.Done{}
		list := numbers(t)
		for len(list) > 0 { // several settlements add to one mark
			k := rapid.IntRange(1, len(list)).Draw(t, "settlement")
			var add []pack.Done
			for _, n := range list[:k] {
				d := pack.Done{
					N: n, Worker: rapid.SampledFrom([]string{"", "w", "ü"}).Draw(t, "worker"),
					Token:   rapid.Int64().Draw(t, "token"),
					Started: rapid.Int64().Draw(t, "started"), Finished: rapid.Int64().Draw(t, "end"),
					Result: value(t, 20),
				}
				if rapid.Bool().Draw(t, "as before") && len(add) > 0 {
					d.Worker, d.Token = add[len(add)-1].Worker, add[len(add)-1].Token
				}
				add = append(add, d)
				want[n] = d
			}
			var bits pack.Bits
			if body, bits = pack.AppendDone(body, add); bits&all != 0 || bits.Len() != k {
				t.Fatalf("bits %b beside %b", bits, all)
			}
			all |= bits
			list = list[k:]
		}
		got := map[int32]pack.Done{}
		for n := range want {
			d, ok, err := pack.FindDone(body, n)
			if !ok || err != nil {
				t.Fatalf("find %d: %v %v", n, ok, err)
			}
			got[n] = d
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The bytes stand in files: a version that wrote others could not read these.
func TestTheBytesOfBodies(t *testing.T) {
	body, has, n := pack.AppendTasks(nil, []store.Task{
		{N: 65, Stage: "a", Context: store.Value("{}")},
		{N: 66, Stage: "a", Key: "k", GroupKey: "g", MaxAttempts: 3, Timeout: -1},
		{N: 70, Stage: "b", Context: store.Value("")},
		{N: 128, Stage: "b"},
	})
	if got := hex.EncodeToString(body); n != 3 || has != 0b1000110 ||
		got != "030161027b7d"+"3c016b01670601"+"03016200" {
		t.Errorf("tasks: %d, %b, %s", n, has, got)
	}
	body, has, _ = pack.AppendTasks(nil, []store.Task{
		{N: 65, Stage: "a", Meta: `{"c":"7"}`},
		{N: 66, Stage: "a"},
		{N: 67, Stage: "a", Timeout: 1, Meta: `{"c":"8"}`},
		{N: 68, Stage: "a", Meta: `{"c":"7"}`},
	})
	if got := hex.EncodeToString(body); has != 0b11110 || got != "410161"+"00097b2263223a2237227d"+
		"00"+"6002"+"00097b2263223a2238227d"+"4001" {
		t.Errorf("tasks with metas: %b, %s", has, got)
	}
	body, has, _ = pack.AppendTasks(nil, []store.Task{
		{N: 65, Stage: "a", StartWithin: 30e6},
		{N: 66, Stage: "a", Timeout: 1, Meta: `{}`, StartWithin: 1},
		{N: 67, Stage: "a"},
	})
	if got := hex.EncodeToString(body); has != 0b1110 ||
		got != "810161"+"01808ece1c"+"e002"+"00027b7d"+"0102"+"00" {
		t.Errorf("tasks with a time to start: %b, %s", has, got)
	}
	if err := pack.EachTask([]byte{0x81, 1, 'a', 2, 2}, 65, 0b10, func(*store.Task) bool {
		return true
	}); !errors.Is(err, pack.ErrDamaged) {
		t.Errorf("an entry with more than is known: %v", err)
	}
	body, has = pack.AppendDone(nil, []pack.Done{
		{N: 65, Worker: "w", Token: 300, Started: 10, Finished: 74},
		{N: 66, Worker: "w", Token: 300, Started: 9, Finished: 9},
		{N: 127, Worker: "v", Token: 1, Started: 10, Finished: 11, Result: store.Value("1")},
	})
	if got := hex.EncodeToString(body); has != 1<<63|0b110 ||
		got != "000177d8040600000000000000148001"+"0100"+"0101760200000000000000801402"+"0231" {
		t.Errorf("outcomes: %b, %s", has, got)
	}
}

func FuzzBodiesFromElsewhere(f *testing.F) {
	tasks, has, _ := pack.AppendTasks(nil, []store.Task{{N: 1, Stage: "a", Key: "k"}, {N: 9}})
	meta, carry, _ := pack.AppendTasks(nil, []store.Task{
		{N: 1, Meta: `{"a":"1"}`}, {N: 2, Meta: `{"a":"1"}`},
	})
	f.Add(meta, uint64(carry))
	hurry, bits, _ := pack.AppendTasks(nil, []store.Task{{N: 1, StartWithin: 1e6}, {N: 2}})
	f.Add(hurry, uint64(bits))
	done, _ := pack.AppendDone(nil, []pack.Done{{N: 3, Worker: "w", Result: store.Value("1")}})
	f.Add(tasks, uint64(has))
	f.Add(done, uint64(1))
	f.Add([]byte{0xff, 0xff}, uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, body []byte, bits uint64) {
		read := 0
		err := pack.EachTask(body, 64, pack.Bits(bits), func(k *store.Task) bool {
			read += len(k.Context) + len(k.Key) + len(k.GroupKey)
			if len(k.Meta) > len(body) {
				t.Errorf("a meta of %d bytes in %d", len(k.Meta), len(body))
			}
			return true
		})
		if err == nil && read > len(body) || err != nil && !errors.Is(err, pack.ErrDamaged) {
			t.Errorf("%d bytes of %d: %v", read, len(body), err)
		}
		err = pack.EachDone(body, 64, func(d *pack.Done) bool {
			if d.N < 64 || d.N > 127 {
				t.Errorf("number %d is not of this pack", d.N)
			}
			return true
		})
		if err != nil && !errors.Is(err, pack.ErrDamaged) {
			t.Error(err)
		}
	})
}

// fit is a report that fits.
func fit() store.Report {
	return store.Report{
		ID: task.ID{Batch: 1, N: 70}, Token: task.Token{Span: 5, SpanToken: 2},
		Step: store.Step{
			Kind: task.KindDone, Ran: "a", Stage: "a", ContextSeq: -1, Attempt: 1,
			Base: store.Final, Worker: "w", Started: 5, Finished: 9,
			Hash: store.ReportHash(task.Finish(nil)),
		},
	}
}

func TestOnlyPlainOutcomesFit(t *testing.T) {
	r := fit()
	if !pack.Fits(&r) {
		t.Fatal("a plain outcome does not fit")
	}
	withResult := task.Finish("x")
	large := store.Value(bytes.Repeat([]byte("1"), pack.ResultLimit+1))
	for name, change := range map[string]func(*store.Report){
		"a later hand-out":  func(r *store.Report) { r.Token.Seq = 1 },
		"a failure":         func(r *store.Report) { r.Step.Kind = task.KindFail },
		"a context":         func(r *store.Report) { r.Step.Context = store.Value("{}") },
		"an older context":  func(r *store.Report) { r.Step.ContextSeq = 0 },
		"an error":          func(r *store.Report) { r.Step.Error = "late" },
		"another attempt":   func(r *store.Report) { r.Step.Attempt = 2 },
		"not final":         func(r *store.Report) { r.Step.Base = 0 },
		"a move":            func(r *store.Report) { r.Move = &store.Move{} },
		"a notice":          func(r *store.Report) { r.Notice = &store.Batch{} },
		"another hash":      func(r *store.Report) { r.Step.Hash++ },
		"what was recorded": func(r *store.Report) { r.Step.Hash = store.UncommittedHash },
		"a blob": func(r *store.Report) {
			r.Step.Result = store.Ref("b")
			r.Step.Hash = store.ReportHash(withResult)
		},
		"a large result": func(r *store.Report) {
			r.Step.Result = large
			r.Step.Hash = store.ReportHash(task.Outcome{
				Kind: task.KindDone, Result: []byte(large),
			})
		},
	} {
		r := fit()
		change(&r)
		if pack.Fits(&r) {
			t.Errorf("%s fits", name)
		}
	}
}

func TestAMarkSaysWhatAStepWould(t *testing.T) {
	for _, o := range []task.Outcome{task.Finish(nil), task.Finish("x"), task.Finish(nil)} {
		r := fit()
		r.Step.Result, r.Step.Hash = store.Value(o.Result), store.ReportHash(o)
		if !pack.Fits(&r) {
			t.Fatalf("%s does not fit", o.Result)
		}
		body, _ := pack.AppendDone(nil, []pack.Done{pack.DoneBy(&r)})
		d, _, err := pack.FindDone(body, r.ID.N)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Step, d.Step("a")); diff != "" {
			t.Error(diff)
		}
		other := r
		other.Token.SpanToken++
		if !d.Repeats(&r) || d.Repeats(&other) {
			t.Error("which report repeats it is not told")
		}
		other = r
		if other.Step.Hash++; d.Repeats(&other) {
			t.Error("another outcome repeats it")
		}
	}
}

func BenchmarkAppend64(b *testing.B) {
	tasks := make([]store.Task, pack.Size)
	done := make([]pack.Done, pack.Size)
	for i := range tasks {
		tasks[i] = store.Task{
			N: int32(i), Stage: "send", Context: store.Value(bytes.Repeat([]byte("x"), 100)),
		}
		done[i] = pack.Done{
			N: int32(i), Worker: "worker", Token: 1, Started: 1e15, Finished: 1e15 + 9,
		}
	}
	var body []byte
	b.Run("Tasks", func(b *testing.B) {
		for b.Loop() {
			body, _, _ = pack.AppendTasks(body[:0], tasks)
		}
		b.ReportMetric(float64(len(body))/pack.Size, "B/task")
	})
	b.Run("Done", func(b *testing.B) {
		for b.Loop() {
			body, _ = pack.AppendDone(body[:0], done)
		}
		b.ReportMetric(float64(len(body))/pack.Size, "B/task")
	})
	mark := body
	b.Run("FindDone", func(b *testing.B) {
		for b.Loop() {
			if _, ok, err := pack.FindDone(mark, 63); !ok || err != nil {
				b.Fatal(err)
			}
		}
	})
}
