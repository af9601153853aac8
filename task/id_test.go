package task_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rotahq/rota/task"
)

func ExampleID() {
	id := task.ID{Batch: 1832960000000000899, N: 42}
	fmt.Println(id)

	back, err := task.ParseID(id.String())
	fmt.Println(back == id, err)

	_, err = task.ParseID("42")
	fmt.Println(err)
	// Output:
	// 1jvzvd2br00w321a
	// true <nil>
	// parse id "42": not a task id
}

func TestParseIDAcceptsOnlyWhatStringGives(t *testing.T) {
	for _, s := range []string{
		"", "0", "1",
		"1000000000000",               // no N
		"1000000000000" + "1",         // no N
		"1000000000000" + "0",         // no N
		"0000000000000" + "11",        // batch 0
		"8000000000000" + "11",        // batch 1<<63
		"zzzzzzzzzzzzz" + "11",        // batch beyond 64 bits
		"1000000000000" + "200",       // leading zeros
		"1000000000000" + "201",       // leading zero
		"1000000000000" + "21",        // N shorter than its count
		"1000000000000" + "111",       // N longer than its count
		"1000000000000" + "72000000",  // N = 1<<31
		"1000000000000" + "7zzzzzzz",  // N beyond 32 bits
		"1000000000000" + "811111111", // too long
		"1000000000000" + "1A",        // upper case
		"1000000000000" + "1u",        // not in the alphabet
		"1000000000000" + "u1",        // not in the alphabet
		"i000000000000" + "11",        // not in the alphabet
		"1000000000000" + "2é",        // not ASCII
		"1000000000000" + "11\x00",    // NUL
		"1000000000000" + "11 ",       // space
		" 1000000000000" + "11",       // space
		"1000000000000" + "11\n",      // line end
		"1000000000000" + "1.",        // a token's dot
		"-100000000000" + "11",        // sign
		"1000000000000" + "2-1",       // sign
		"١00000000000" + "11",         // a digit of another script
		strings.Repeat("1", 1<<20),    // far too long
	} {
		if id, err := task.ParseID(s); err == nil || id != (task.ID{}) ||
			len(err.Error()) > 300 {
			t.Errorf("ParseID(%.40q) = %v, %v", s, id, err)
		}
	}
}

var someIDs = []task.ID{
	{Batch: 1}, {Batch: 1, N: 1}, {Batch: 1, N: 31}, {Batch: 1, N: 32}, {Batch: 1, N: 1023},
	{Batch: 1, N: 1024}, {Batch: 1, N: math.MaxInt32},
	{Batch: 31}, {Batch: 32}, {Batch: 1 << 60, N: 9}, {Batch: 1 << 60, N: 10},
	{Batch: math.MaxInt64}, {Batch: math.MaxInt64, N: math.MaxInt32},
}

func TestIDsSortAsTheyCompare(t *testing.T) {
	if !slices.IsSortedFunc(someIDs, task.ID.Compare) {
		t.Error("the table is not sorted by Compare")
	}
	for _, a := range someIDs {
		for _, b := range someIDs {
			if got, want := a.Compare(b), -b.Compare(a); got != want {
				t.Errorf("%v against %v: %d, the other way %d", a, b, got, want)
			}
			if as, bs := a.String(), b.String(); cmp.Compare(as, bs) != a.Compare(b) {
				t.Errorf("%q against %q: %d, want %d", as, bs, cmp.Compare(as, bs), a.Compare(b))
			}
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, id := range someIDs {
		f.Add(id.String(), id.Batch, id.N)
	}
	f.Add("", int64(0), int32(-1))
	f.Fuzz(func(t *testing.T, s string, batch int64, n int32) {
		if id, err := task.ParseID(s); err == nil {
			if id.String() != s || id.Batch <= 0 || id.N < 0 {
				t.Errorf("%q is read as %+v, which is %q", s, id, id)
			}
		}
		if batch <= 0 || n < 0 {
			return
		}
		id := task.ID{Batch: batch, N: n}
		if back, err := task.ParseID(id.String()); err != nil || back != id {
			t.Errorf("%+v is %q, which is read as %+v, %v", id, id, back, err)
		}
		var back task.ID
		text, err := id.MarshalText()
		if err != nil || back.UnmarshalText(text) != nil || back != id {
			t.Errorf("%+v is %q as text, which is read as %+v", id, text, back)
		}
		other := task.ID{Batch: max(batch>>(n&31), 1), N: n >> (batch & 31)}
		if cmp.Compare(id.String(), other.String()) != id.Compare(other) {
			t.Errorf("%q and %q do not sort as %+v and %+v", id, other, id, other)
		}
	})
}

func TestParseTokenAcceptsOnlyWhatStringGives(t *testing.T) {
	for _, s := range []string{
		"", ".", "...", "1", "1.1.1", "1.1.1.", "1.1.1.1.", "1.1.1.1.0", "1.1.1.1.1.1", "1.1.1.1.",
		".1.1.1", "1..1.1", "01.1.1.1", "1.1.1.01", "1,1,1,1",
		"8000000000000.1.1.1", "1.8000000000000.1.1", "1.1.2000000.1", "1.1.1.g000000000000",
		"1.1.1.1.g000000000000", "zzzzzzzzzzzzzz.1.1.1", "1.1.1.1 ", " 1.1.1.1",
		"1.1.1.-1", "1.1.1.U", strings.Repeat("1", 1<<20),
	} {
		if token, err := task.ParseToken(s); err == nil ||
			token != (task.Token{}) || len(err.Error()) > 400 {
			t.Errorf("ParseToken(%.40q) = %v, %v", s, token, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("0.0.0.0", int64(0), int64(0), int32(0), uint64(0), uint64(0))
	f.Add("1.1.1.1", int64(math.MaxInt64), int64(math.MaxInt64), int32(math.MaxInt32),
		uint64(math.MaxUint64), uint64(math.MaxUint64))
	f.Add("7zzzzzzzzzzzz.1.1.1", int64(31), int64(32), int32(33), uint64(34), uint64(0))
	f.Fuzz(func(t *testing.T, s string, span, spanToken int64, seq int32, seal, node uint64) {
		if token, err := task.ParseToken(s); err == nil {
			if token.String() != s || token.Span < 0 || token.SpanToken < 0 || token.Seq < 0 {
				t.Errorf("%q is read as %+v, which is %q", s, token, token)
			}
		}
		if span < 0 || spanToken < 0 || seq < 0 {
			return
		}
		token := task.Token{Span: span, SpanToken: spanToken, Seq: seq, Seal: node, Owner: seal}
		if back, err := task.ParseToken(token.String()); err != nil || back != token {
			t.Errorf("%+v is %q, which is read as %+v, %v", token, token, back, err)
		}
	})
}

func TestParsingAGoodIDOrTokenAllocatesNothing(t *testing.T) {
	id, token := []byte(someIDs[12].String()), task.Token{Span: 1 << 40, SpanToken: 3}.String()
	if n := testing.AllocsPerRun(100, func() { _, _ = task.ParseID(string(id)) }); n != 0 {
		t.Errorf("ParseID: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = task.ParseToken(token) }); n != 0 {
		t.Errorf("ParseToken: %v allocations", n)
	}
}

func BenchmarkIDAppend(b *testing.B) {
	id := task.ID{Batch: 1_790_000_000_000_000 << 10, N: 42}
	buf := make([]byte, 0, 32)
	b.ReportAllocs()
	for b.Loop() {
		buf = id.Append(buf[:0])
	}
}

func BenchmarkParseID(b *testing.B) {
	s := task.ID{Batch: 1_790_000_000_000_000 << 10, N: 42}.String()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := task.ParseID(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseToken(b *testing.B) {
	s := task.Token{Span: 1 << 40, SpanToken: 3, Seq: 7, Seal: 1 << 31}.String()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := task.ParseToken(s); err != nil {
			b.Fatal(err)
		}
	}
}
