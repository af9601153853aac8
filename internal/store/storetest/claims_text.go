package storetest

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/caller"
	"github.com/rotahq/rota/task"
)

// long are texts on both sides of the limit up to which texts stand in their rows, and far beyond
// it.
func long() []caller.Text {
	return []caller.Text{
		{What: "the inline limit", JSON: caller.JSON(store.InlineLimit)},
		{What: "one above the limit", JSON: caller.JSON(store.InlineLimit + 1)},
		{What: "one below the limit", JSON: caller.JSON(store.InlineLimit - 1)},
		{What: "a hundred thousand", JSON: caller.JSON(100_000)},
		{What: "a mebibyte and a byte", JSON: caller.JSON(1<<20 + 1)},
	}
}

// textClaims is what holds for Keep, Value and the logs.
func textClaims() []claim {
	return []claim{
		{"NobodyIsToTryAgainForATextThatIsGone", func(s *scene) {
			_, err := s.Value(s.ctx, store.Ref("2026-11-21/"+strings.Repeat("a", 26)))
			s.wantErr("a large one", err, fs.ErrNotExist)
			s.want("worth another try", errors.Is(err, task.ErrUnavailable), false)
		}},
		{"TextsComeBackByteForByte", func(s *scene) {
			h := s.join("a")
			for _, t := range append(caller.Awkward(), long()...) {
				what, text := t.What, t.JSON
				v, err := s.Keep(s.ctx, []byte(text))
				s.ok(err)
				if _, ref := v.Blob(); ref != (len(text) > store.InlineLimit) || !ref &&
					string(v) != text {
					s.fail("%s: %d bytes became a value of %d bytes", what, len(text), len(v))
				}
				s.wantText(what, v, text)
				b := s.batch("q", 1)
				b.Tasks[0].Context = v
				s.submit(h, b)
				o := s.takeOne(h)
				s.wantText(what+", handed out", o.Context, text)
				s.wantSame(what+", seen", s.view(o.ID()).Context, text)
				r := o.Report(s.clock, task.Next("second", nil))
				r.Step.Context, r.Step.ContextSeq = store.Value(`"another"`), o.Seq
				s.recorded(r)
				o = s.takeAgain(h, o)
				s.wantText(what+", replaced", o.Context, `"another"`)
				r = o.Report(s.clock, task.Finish(nil))
				r.Step.Context, r.Step.ContextSeq, r.Step.Result = v, o.Seq, v
				s.recorded(r)
				s.wantSame(what+", at the end", s.view(o.ID()).Context, text)
				s.wantSame(what+", as result", s.view(o.ID()).Result, text)
			}
		}},
		{"LargeContextOfASubmissionThatFailedIsGoodForTheNextTry", func(s *scene) {
			text := caller.JSON(store.InlineLimit + 1)
			v, err := s.Keep(s.ctx, []byte(text))
			s.ok(err)
			there := s.batch("q", 1)
			s.submit(store.Holder{}, there)
			b := s.batch("q", 1)
			b.Tasks[0].Context = v
			other := b
			other.ID, other.Origin = there.ID, "elsewhere"
			_, err = s.Submit(s.ctx, store.Submission{Batches: []store.Batch{other}})
			s.wantErr("an id that another has", err, store.ErrConflict)
			s.submit(store.Holder{}, b)
			s.wantSame("its context", s.view(task.ID{Batch: b.ID}).Context, text)
		}},
		{"NoTextIsNoText", func(s *scene) {
			v, err := s.Keep(s.ctx, nil)
			s.ok(err)
			s.want("kept nothing", v, store.Value(nil))
			got, err := s.Value(s.ctx, nil)
			s.ok(err)
			s.want("nothing's text", len(got), 0)
			h := s.join("a")
			b := s.batch("q", 1)
			b.Tasks[0].Context = nil
			s.submit(h, b)
			o := s.takeOne(h)
			s.want("context handed out", o.Context, store.Value(nil))
			s.recorded(o.Report(s.clock, task.Finish(nil)))
			got2 := s.view(o.ID())
			s.want("context and result seen", []bool{got2.Context == nil, got2.Result == nil},
				[]bool{true, true})
		}},
		{"ContextStaysUntilAStepChangesIt", func(s *scene) {
			h := s.join("a")
			s.put(1)
			o := s.takeOne(h)
			for i := range 3 { // an unchanged context is read from the step where it stands
				next := task.Next("again", nil)
				if i == 1 {
					next.Context = []byte(`"new"`)
				}
				s.recorded(o.Report(s.clock, next))
				o = s.takeAgain(h, o)
				s.wantText("context", o.Context, []string{"[0]", `"new"`, `"new"`}[i])
				s.want("where it stands", o.ContextSeq, []int32{-1, 1, 1}[i])
			}
			s.changed(task.KindMoved, o.ID())
			s.want("where it stands after a move", s.stand(o.ID()).ContextSeq, int32(1))
			s.wantText("context after a move", s.stand(o.ID()).Context, `"new"`)
		}},
		{"LogLinesComeBackInOrderAndInPages", func(s *scene) {
			id := s.put(1)[0]
			lines := caller.LogLines(s.clock.Now(), 0, 10, 20)
			lines[3].Text, lines[4].Text, lines[4].Stream = "", "☃ \x1b[31m\ttab", "mine"
			s.ok(s.AppendLog(s.ctx, id, lines[:4]))
			s.ok(s.AppendLog(s.ctx, id, lines[4:]))
			got, end := s.readLog(id, 0, 3)
			s.want("lines", got, lines)
			page, err := s.Log(s.ctx, id, end, 10)
			s.ok(err)
			s.want("page at the end", page, store.LogPage{Next: end})
			more := caller.LogLines(s.clock.Now(), 10, 2, 20)
			s.ok(s.AppendLog(s.ctx, id, more))
			got, _ = s.readLog(id, end, 10)
			s.want("lines that came later", got, more)
		}},
		{"LogsOfNoTaskAreNotFound", func(s *scene) {
			s.wantErr("append",
				s.AppendLog(s.ctx, task.ID{Batch: 9}, caller.LogLines(s.clock.Now(), 0, 1, 1)),
				store.ErrNotFound)
			_, err := s.Log(s.ctx, task.ID{Batch: 9}, 0, 1)
			s.wantErr("read", err, store.ErrNotFound)
			page, err := s.Log(s.ctx, s.put(1)[0], 0, 1)
			s.ok(err)
			s.want("log of a silent task", len(page.Lines), 0)
		}},
		{"LongLogsLoseTheirMiddle", func(s *scene) {
			id := s.put(2)[0]
			other := task.ID{Batch: id.Batch, N: 1}
			s.ok(s.AppendLog(s.ctx, other, caller.LogLines(s.clock.Now(), 0, 1, 10)))
			const n, width = 3000, 1000
			for i := 0; i < n; i += 100 {
				s.ok(s.AppendLog(s.ctx, id, caller.LogLines(s.clock.Now(), i, 100, width)))
			}
			got, _ := s.readLog(id, 0, 1000)
			bytes := 0
			for _, l := range got {
				bytes += len(l.Text)
			}
			if bytes > 1<<20 || bytes < 1<<19 {
				s.fail("%d bytes are kept of %d", bytes, n*width)
			}
			want := caller.LogLines(s.clock.Now(), 0, n, width)
			s.want("the first lines", got[:100], want[:100])
			s.want("the newest lines", got[len(got)-100:], want[n-100:])
			got, _ = s.readLog(other, 0, 10)
			s.want("lines of another task", len(got), 1)
		}},
		{"LogsOfBlankLinesLoseTheirMiddleToo", func(s *scene) {
			id := s.put(1)[0]
			text := strings.Repeat("x", 1<<12)
			full := make([]task.LogLine, 2*128) // the first half, and the newest one
			for i := range full {
				full[i] = task.LogLine{Time: s.clock.Now(), Text: text}
			}
			s.ok(s.AppendLog(s.ctx, id, full))
			const blank = 1<<12/store.LogLineMin + 1 // take the place of two lines
			s.ok(s.AppendLog(s.ctx, id, make([]task.LogLine, blank)))
			page, err := s.Log(s.ctx, id, 128, 1)
			s.ok(err)
			s.want("the first lines of the newest half are gone", page.Next > 128+1, true)
		}},
		{"LogsOfStrangeStreamsLoseTheirMiddleToo", func(s *scene) {
			id := s.put(1)[0]
			lines := caller.LogLines(s.clock.Now(), 0, 1000, 1)
			for i := range lines {
				lines[i].Stream = strings.Repeat("\x00", 128)
			}
			for range 20 {
				s.ok(s.AppendLog(s.ctx, id, lines))
			}
			got, _ := s.readLog(id, 0, 1000)
			bytes := 0
			for _, l := range got {
				bytes += len(l.Stream) + len(l.Text)
			}
			if bytes > 1<<20 || bytes < 1<<19 {
				s.fail("%d bytes are kept", bytes)
			}
		}},
	}
}

// wantText resolves a value and compares it.
func (s *scene) wantText(what string, v store.Value, want string) {
	got, err := s.Value(s.ctx, v)
	s.ok(err)
	s.wantSame(what, got, want)
}

// wantSame compares texts that may be too long to print.
func (s *scene) wantSame(what string, got []byte, want string) {
	if !bytes.Equal(got, []byte(want)) {
		s.fail("%s: got %d bytes %.60q, want %d bytes %.60q", what, len(got), got, len(want), want)
	}
}

// readLog reads a log from a position to its end, in pages, and says where the end is.
func (s *scene) readLog(id task.ID, from int64, limit int) (lines []task.LogLine, end int64) {
	for {
		page, err := s.Log(s.ctx, id, from, limit)
		s.ok(err)
		if len(page.Lines) == 0 {
			return lines, from
		}
		if len(page.Lines) > limit || page.Next <= from {
			s.fail("log page from %d: %d lines, next %d", from, len(page.Lines), page.Next)
		}
		lines, from = append(lines, page.Lines...), page.Next
	}
}
