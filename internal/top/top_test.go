package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

var update = flag.Bool("update", false, "write the screens of testdata again")

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// reader is a model and what it asked to be done.
type reader struct {
	Model
	asked []Effect
}

func newReader() *reader { return &reader{Model: New(noon)} }

// tell updates the model by messages.
func (r *reader) tell(msgs ...any) *reader {
	for _, msg := range msgs {
		var do []Effect
		r.Model, do = r.Update(msg)
		r.asked = append(r.asked, do...)
	}
	return r
}

// press presses keys: words, or characters one by one.
func (r *reader) press(keys ...string) *reader {
	for _, k := range keys {
		r.tell(Key(k))
	}
	return r
}

func duration(d time.Duration) *view.Duration { return (*view.Duration)(&d) }

// stand is an overview some seconds after noon.
func stand(seconds int) Stand {
	at := noon.Add(time.Duration(seconds) * time.Second)
	one, two := 1, 2
	o := view.Overview{
		At: view.Time{Time: at}, Node: "n1", Ready: 1234, Waiting: 12, Running: 7, Capacity: 16,
		OldestReady: &view.OldestReady{Queue: "订单", Age: view.Duration(12*time.Minute + 3e9)},
		DeadHour:    3,
		Totals: view.Totals{
			Done: int64(100 * seconds), Submitted: int64(90 * seconds),
		},
		Nodes: []view.OverviewNode{{Name: "n1", State: view.NodeWorking},
			{Name: "n2", State: view.NodeWorking}, {Name: "n3", State: view.NodeOffline}},
		Workers: view.WorkerStates{Active: 2, Draining: 1, Silent: 1},
		Fleet: []view.FleetWorker{
			{Worker: "w1", Node: "n1", State: task.WorkerActive, Capacity: 8, Running: 4},
			{Worker: "w2", Node: "n1", State: task.WorkerSilent, Capacity: 8},
			{Worker: "w3", Node: "n2", State: task.WorkerActive, Capacity: 8, Running: 8},
			{Worker: "w4", Node: "n2", State: task.WorkerDraining, Capacity: 8, Running: 1},
		},
		Schedules: view.ScheduleStates{Total: 9, Late: 1, Paused: 2},
		Jobs:      view.ReplicaStates{Wanted: 40, Running: 38, Pending: 2},
		Budget:    &one, BudgetWorkers: &two,
		Queues: []view.OverviewQueue{
			{Queue: "订单", Ready: 1200, OldestReady: duration(723 * time.Second), Paused: true},
			{Queue: "mail", Ready: 34, Running: 7, OldestReady: duration(1500 * time.Millisecond),
				Done: int64(100 * seconds), Submitted: int64(90 * seconds), Dead: 3, Limited: true},
			{Queue: "img", Waiting: 12},
		},
	}
	return Stand{o, at}
}

func deadTasks() Loaded {
	row := func(id, queue, why string) Row {
		return Row{id, []Cell{{Text: id}, {Text: queue}, StateCell(task.Dead), {}, {Text: "5"},
			{Text: "2m ago"}, {Text: "w1"}, {Text: why}}}
	}
	return Loaded{Query: Query{Screen: Tasks, State: task.Dead}, At: noon, List: List{
		Heads: []string{"ID", "QUEUE", "STATE", "STAGE", "#TRY", "CREATED", "WORKER", "ERROR"},
		Rows: []Row{
			row("1pq3v0m7d2k5g10", "mail",
				"smtp.example.com: connection refused after 3 tries, the last of them at noon"),
			row("1pq3v0m7d2k5g11", "订单", "数据库连接被拒绝：请稍后再试，或者联系管理员"),
			row("1pq3v0m7d2k5g12", "mail",
				"a\x1b[2Jb\nc\u202egpj.exe"),
		},
	}}
}

// keysOfMail are group keys of queue mail, one of them hostile.
func keysOfMail() Loaded {
	row := func(key, state, paused string, tone Tone, ready, running, weight string) Row {
		return Row{key, []Cell{{Text: key}, {state, tone}, {Text: ready}, {Text: running},
			{Text: weight}, {Text: paused}}}
	}
	return Loaded{Query: Query{Screen: Keys, Queue: "mail"}, At: noon, List: List{
		Heads: []string{"KEY", "STATE", "#READY", "#RUNNING", "#WEIGHT", "PAUSED"},
		Rows: []Row{
			row("customer-7", "full", "", Busy, "12,345", "3", "1"),
			row("客户 a/b", "paused", "for 29m", Busy, "7", "0", "5"),
			row("a\x1b[2Jb\nc\u202egpj.exe", "paused", "until it is resumed", Busy, "1", "0", "1"),
			row("..", "open", "", Good, "0", "1", "1"),
		},
		Note: "more work than was looked at",
	}}
}

// keysAs answers for the keys of a queue.
func keysAs(queue string, l List) Loaded {
	return Loaded{Query: Query{Screen: Keys, Queue: queue}, List: l}
}

// keys is a reader in front of the keys of queue mail.
func keys() *reader { return live().press("down", "K").tell(keysOfMail()) }

// live is a reader in front of a cluster at work.
func live() *reader {
	r := newReader()
	for i := range 5 {
		s := stand(i)
		s.Overview.Totals.Done = int64(50 * i * i)
		r.tell(Tick(s.At), s)
	}
	return r
}

func TestScreens(t *testing.T) {
	for name, r := range map[string]*reader{
		"nothing-yet": newReader(),
		"overview":    live(),
		"no-queue": newReader().tell(
			Stand{view.Overview{Node: "n1", At: view.Time{Time: noon}}, noon}),
		"many-queues": many(1000).press("end", "up"),
		"dead":        live().press("4").tell(deadTasks()).press("down"),
		"dead-detail": detail(),
		"filter":      live().press("4").tell(deadTasks()).press("/", "订"),
		"ask":         live().press("4").tell(deadTasks()).press("c"),
		"help":        live().press("?"),
		"frozen":      live().press("space").tell(stand(9)),
		"no-news":     live().tell(Tick(noon.Add(time.Minute))),
		"failed": live().press("3").tell(Loaded{
			Query: Query{Screen: Workers}, At: noon, Err: errors.New("list workers: no answer"),
		}),
		"keys":        keys().press("down"),
		"keys-filter": keys().press("/", "7"),
		"keys-ask":    keys().press("down", "p"),
		"keys-none": live().press("down", "K").tell(Loaded{
			Query: Query{Screen: Keys, Queue: "mail"}, At: noon, List: List{
				Note: "queue mail does not go by group keys: " + strings.Repeat("and why ", 20),
			},
		}),
		"empty-groups": live().press("5").tell(Loaded{Query: Query{Screen: Groups}, At: noon}),
	} {
		for _, size := range [][2]int{{80, 24}, {120, 40}} {
			file := fmt.Sprintf("%s-%dx%d", name, size[0], size[1])
			t.Run(file, func(t *testing.T) {
				lines := r.Lines(size[0], size[1])
				fits(t, lines, size[0], size[1])
				for i := range lines {
					lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
				}
				golden(t, file, strings.Join(lines, "\n")+"\n")
			})
		}
	}
}

func many(n int) *reader {
	s := stand(1)
	s.Overview.Queues = nil
	for i := range n {
		s.Overview.Queues = append(s.Overview.Queues, view.OverviewQueue{
			Queue: fmt.Sprintf("queue-%04d", i), Ready: int64(n - i),
			OldestReady: duration(time.Duration(n-i) * time.Minute),
		})
	}
	return newReader().tell(s)
}

func detail() *reader {
	r := live().press("4").tell(deadTasks()).press("enter")
	long := strings.Repeat("连接被拒绝 and a long English sentence; ", 9)
	return r.tell(Opened{Thing: Thing{Screen: Tasks, ID: "1pq3v0m7d2k5g10"},
		Text: "task  1pq3v0m7d2k5g10\nerror " + long + "\n" + strings.Repeat("a line\n", 60)})
}

// fits fails when lines do not fit a screen, or hold more than text and colours.
func fits(t *testing.T, lines []string, width, height int) {
	t.Helper()
	if len(lines) > height {
		t.Errorf("%d lines on a screen of %d", len(lines), height)
	}
	for i, line := range lines {
		if w := lipgloss.Width(line); w > width {
			t.Errorf("line %d is %d wide: %q", i, w, line)
		}
		for _, r := range colours.ReplaceAllString(line, "") {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e' || r == '\u2028' {
				t.Errorf("line %d steers the terminal: %q", i, line)
			}
		}
	}
}

// colours are the only sequences that are written.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the screen is\n%s\nwant\n%s", got, want)
	}
}

// hostile are texts that would move the cursor, change colours, or hide what follows.
var hostile = []string{
	"\x1b[2J\x1b[H", "\x1b]0;title\x07", "\u009b31m", "a\nb\rc\td", "\u202egpj.exe",
	"\u2028\u2029", "\x00\x07\x08", strings.Repeat("长", 500), strings.Repeat("x", 5000),
	"👩\u200d🔬👨\u200d👩\u200d👧",
	"e\u0301\u0301\u0301", "\xff\xfe", "می\u200cخواهم", "",
}

func TestHostileTextsStayInTheirPlaces(t *testing.T) {
	for _, text := range hostile {
		s := stand(1)
		o := &s.Overview
		o.Node, o.OldestReady.Queue, o.Queues[0].Queue = text, text, text
		o.Fleet[0].Worker, o.Fleet[0].Node, o.Missing = text, text, []string{text}
		list := deadTasks()
		for i := range list.Rows {
			list.Rows[i].ID = text
			for k := range list.Rows[i].Cells {
				list.Rows[i].Cells[k].Text = text
			}
		}
		act := Action{Cancel, Thing{Screen: Tasks, ID: text}}
		readers := []*reader{
			newReader().tell(s), newReader().tell(s).press("4").tell(list),
			newReader().tell(s).press("4").tell(list).press("down", "c"),
			newReader().tell(s).press("4").tell(list).press("/", text),
			newReader().tell(s).press("K").tell(
				keysAs(text, List{list.Heads, list.Rows, true, text})),
			newReader().tell(s).press("K").tell(keysAs(text, list.List)).press("p"),
			newReader().tell(s).press("K").tell(keysAs(text, List{Note: text})),
			newReader().tell(s, Lost{errors.New(text)}),
			newReader().tell(s, Acted{act, text, nil}),
			newReader().tell(s, Acted{act, "", errors.New(text)}),
		}
		for i, r := range readers {
			for _, width := range []int{40, 80, 120, 200} {
				if t.Failed() {
					t.Fatalf("reader %d, %d wide, of %q", i, width, text)
				}
				fits(t, r.Lines(width, 24), width, 24)
			}
		}
	}
}

func TestTinyTerminalsAreTold(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {1, 1}, {39, 24}, {80, 9}} {
		fits(t, live().Lines(size[0], size[1]), size[0], max(size[1], 1))
	}
}
