package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

// second is what times in ledgers are made of.
const second = int64(time.Second / time.Microsecond)

// What stands where in the ledger of an honest task.
const (
	asks = iota
	acks
	begins0
	reports0
	begins1
	reports1
	repeats1
	there
	step0
	step1
)

// honest is the ledger of task i, told by everybody as it was: its first hand-out fails and its
// second succeeds. Of the tasks of each ten one is doubtful, one dead, and one hand-out lost.
func honest(i int) []line {
	mark, id := fmt.Sprintf("m-%d", i), task.ID{Batch: int64(i) + 1, N: int32(i % 3)}
	token := func(seq int32) string {
		return task.Token{Span: id.Batch, SpanToken: 1, Seq: seq}.String()
	}
	want, last := task.Done, task.KindDone
	if i%10 == 1 {
		want, last = task.Dead, task.KindFail
	}
	lines := []line{
		asks: {Deed: asked, Mark: mark, Want: want, Sum: 7},
		acks: {Deed: acknowledged, Mark: mark, ID: id},
		begins0: {Deed: begun, Mark: mark, ID: id, Token: token(0), Sum: 7, At: 0,
			Lasts: 3 * second, Who: "w0"},
		reports0: {Deed: answered, Mark: mark, ID: id, Token: token(0), Kind: task.KindRetry,
			Text: "once more", Status: task.Recorded, At: 3 * second},
		begins1: {Deed: begun, Mark: mark, ID: id, Token: token(1), Sum: 7, At: 8 * second,
			Lasts: second, Who: "w1"},
		reports1: {Deed: answered, Mark: mark, ID: id, Token: token(1), Kind: last,
			Status: task.Recorded, At: 9 * second},
		repeats1: {Deed: answered, Mark: mark, ID: id, Token: token(1), Kind: last,
			Status: task.Repeated, At: 9 * second},
		there: {Deed: stands, Mark: mark, ID: id},
		step0: {Deed: stepped, Mark: mark, ID: id, Seq: 0, Fence: 1, Kind: task.KindRetry,
			Text: "once more"},
		step1: {Deed: stepped, Mark: mark, ID: id, Seq: 1, Fence: 1, Kind: last, Final: true},
	}
	switch i % 10 {
	case 2: // its submitter never learned of it
		lines = without(lines, acks)
	case 3:
		lines = lose(lines)
	}
	return lines
}

// judged is the verdict over 20 honest tasks after the ledgers were falsified, read in several
// parts.
func judged(t *testing.T, c conditions, falsify func(map[string][]line)) *verdict {
	t.Helper()
	stories := map[string][]line{}
	for i := range 20 {
		lines := honest(i)
		stories[lines[0].Mark] = lines
	}
	falsify(stories)
	folder, luck := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	books := make([]*book, 3)
	for i := range books {
		b, err := openBook(filepath.Join(folder, fmt.Sprintf("%d.jsonl", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		books[i] = b
	}
	lines := slices.Concat([]line{{Deed: died, Who: "a", At: 2 * second}},
		slices.Concat(slices.Collect(maps.Values(stories))...))
	luck.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	for _, l := range lines { // who writes where, and in which order, must not matter
		if err := books[luck.IntN(len(books))].write(l); err != nil {
			t.Fatal(err)
		}
	}
	var whole, parts *verdict
	var err error
	if whole, err = check(folder, c); err != nil {
		t.Fatal(err)
	}
	c.Part = 5000
	if parts, err = check(folder, c); err != nil {
		t.Fatal(err)
	}
	slices.Sort(whole.Told)
	slices.Sort(parts.Told)
	if a, b := fmt.Sprintf("%+v", *whole), fmt.Sprintf("%+v", *parts); a != b {
		t.Errorf("all at once: %s\nin parts: %s", a, b)
	}
	return whole
}

func TestHonestLedgersAreBelieved(t *testing.T) {
	v := judged(t, conditions{Known: time.Second}, func(map[string][]line) {})
	v.Told = nil
	want := verdict{
		Tasks: 20, Acknowledged: 18, Unasked: 2, Dead: 2, Begun: 40, Accepted: 38, Repeated: 20,
		Lost: 2, Old: 20, Kept: 18,
		Wrong: map[rule]int{},
	}
	if got, want := fmt.Sprintf("%+v", *v), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// Each lie is found, and taken for nothing else.
func TestLiesAreFound(t *testing.T) {
	const mark = "m-5"
	other := task.ID{Batch: 99}
	for _, c := range []struct {
		name string
		lie  func(l []line) []line
		want []rule
		conditions
	}{
		{name: "acknowledged, and never stored", want: []rule{ruleTaskLost},
			lie: func(l []line) []line {
				return l[:begins0]
			}},
		{name: "acknowledged as another", want: []rule{ruleTaskLost}, lie: func(l []line) []line {
			l[acks].ID = other
			return l
		}},
		{name: "one submission, two tasks", want: []rule{ruleTaskTwice},
			lie: func(l []line) []line {
				twin := []line{began(l[begins0], 0, 1), l[there], l[step1]}
				for i := range twin {
					twin[i].ID = other
				}
				twin[2].Seq = 0
				return append(l, twin...)
			}},
		{name: "nobody asked", want: []rule{ruleTaskForeign}, lie: func(l []line) []line {
			return without(l, asks, acks)
		}},
		{name: "no step", want: []rule{ruleUnfinished}, lie: func(l []line) []line {
			return []line{l[asks], l[acks], l[there]}
		}},
		{name: "steps, but no end", want: []rule{ruleUnfinished}, lie: func(l []line) []line {
			l[step1].Final = false
			return l
		}},
		{name: "dead for no reason", want: []rule{ruleOtherEnd}, lie: func(l []line) []line {
			l[reports1].Kind = task.KindFail
			l[repeats1].Kind = task.KindFail
			l[step1].Kind = task.KindFail
			return l
		}},
		{name: "a gap", want: []rule{ruleHistory}, lie: func(l []line) []line {
			return without(l, begins0, reports0, step0)
		}},
		{name: "two ends", want: []rule{ruleHistory}, lie: func(l []line) []line {
			l[step0].Final = true
			return l
		}},
		{name: "a report without its step", want: []rule{ruleReportLost},
			lie: func(l []line) []line {
				return append(l, report(l[reports0], 2, 1))
			}},
		{name: "another token's step", want: []rule{ruleReportLost}, lie: func(l []line) []line {
			l[step0].Fence = 2
			return append(l, began(l[begins0], 0, 2))
		}},
		{name: "another outcome's step", want: []rule{ruleReportLost}, lie: func(l []line) []line {
			l[step0].Kind = task.KindNext
			return l
		}},
		{name: "another text's step", want: []rule{ruleReportLost}, lie: func(l []line) []line {
			l[step0].Text = "never said"
			return l
		}},
		{name: "two tokens accepted", want: []rule{ruleReportLost, ruleTwoOutcomes},
			lie: func(l []line) []line {
				return append(l, report(l[reports0], 0, 2))
			}},
		{name: "two outcomes of one token", want: []rule{ruleReportLost, ruleTwoOutcomes},
			lie: func(l []line) []line {
				second := l[reports1]
				second.Kind = task.KindFail
				return append(l, second)
			}},
		{name: "recorded, and recorded", want: []rule{ruleTwiceNew}, lie: func(l []line) []line {
			return append(l, l[reports1])
		}},
		{name: "a step of nobody", want: []rule{ruleStepForeign}, lie: func(l []line) []line {
			return without(l, begins0)
		}},
		{name: "a hand-out in two hands", want: []rule{ruleHandTwice}, lie: func(l []line) []line {
			return append(l, l[begins0])
		}},
		{name: "a hand-out of nothing", want: []rule{ruleHandForeign}, lie: func(l []line) []line {
			nothing := l[begins0]
			nothing.ID = other
			return append(l, nothing)
		}},
		{name: "another context", want: []rule{ruleContext}, lie: func(l []line) []line {
			l[begins0].Sum++
			return l
		}},
		{name: "no lie: it was too young", lie: lose, conditions: conditions{
			OnlyNodes: true, Known: 2500 * time.Millisecond,
		}},
		{name: "an old hand-out that went with its node", want: []rule{ruleRunAgain}, lie: lose,
			conditions: conditions{OnlyNodes: true, Known: time.Second}},
		{name: "a hand-out lost for naught", want: []rule{ruleDisturbed}, lie: lose,
			conditions: conditions{OnlyStore: true}},
		{name: "a hand-out given back for naught", want: []rule{ruleDisturbed},
			lie: func(l []line) []line {
				l[reports0].Kind, l[step0].Kind = task.KindRelease, task.KindRelease
				return l
			}, conditions: conditions{OnlyStore: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := judged(t, c.conditions, func(stories map[string][]line) {
				delete(stories, "m-3") // the honest ones whose worker died
				delete(stories, "m-13")
				stories[mark] = c.lie(stories[mark])
			})
			if got := slices.Sorted(maps.Keys(v.Wrong)); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q: %q", got, c.want, v.Told)
			}
		})
	}
}

// without leaves lines out.
func without(l []line, out ...int) (left []line) {
	for i := range l {
		if !slices.Contains(out, i) {
			left = append(left, l[i])
		}
	}
	return left
}

// report and began are lines like another one about a hand-out of the same task.
func report(like line, seq int32, fence int64) line {
	like.Token = task.Token{Span: like.ID.Batch, SpanToken: fence, Seq: seq}.String()
	return like
}

func began(like line, seq int32, fence int64) line { return report(like, seq, fence) }

// lose lets the worker of the first hand-out die with it.
func lose(l []line) []line {
	l[step0].Kind, l[step0].Text = task.KindLost, ""
	return without(l, reports0)
}

func TestCutLineDoesNotCountAndNonsenseIsSaid(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.jsonl")
	b, err := openBook(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if err := b.write(honest(0)...); err != nil {
		t.Fatal(err)
	}
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	add(`{"Deed":"stands","Mark":"nobody`)
	if v, err := check(folder, conditions{}); err != nil || len(v.Wrong) > 0 || v.Tasks != 1 {
		t.Errorf("%v, %v", v, err)
	}
	add("\n")
	if v, err := check(folder, conditions{}); err == nil {
		t.Errorf("nonsense was read as %v", v)
	}
}
