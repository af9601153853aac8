package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// noNews is for how long nothing may come before it is told: that nothing changed is said every
// five seconds.
const noNews = 8 * time.Second

// title is the first line: who answers, and of when what is shown is.
func (m *Model) title(width int) []string {
	left := term.Bold("rota top")
	if m.Stand == nil {
		why := "no answer yet"
		if m.lost != "" {
			why = m.lost
		}
		return wrapped(left+"  "+term.Yellow(term.OneLine(why)), width)
	}
	left += "  node " + term.OneLine(m.Stand.Node) + "  as of " +
		m.Stand.At.In(m.Now.Location()).Format("15:04:05")
	right := m.age()
	gap := width - lipgloss.Width(left) - lipgloss.Width(right)
	if gap < 2 {
		return []string{left, right}
	}
	return []string{left + strings.Repeat(" ", gap) + right}
}

// age says how far what is shown can be trusted.
func (m *Model) age() string {
	silent := m.Now.Sub(m.Came).Truncate(time.Second)
	switch {
	case m.Paused:
		return term.Yellow("frozen: space goes on")
	case m.lost != "":
		return term.Red(term.OneLine(m.lost))
	case silent > noNews:
		return term.Red("no news for " + silent.String())
	case len(m.Stand.Missing) > 0:
		return term.Yellow("no answer of node " + term.OneLine(strings.Join(m.Stand.Missing, ", ")))
	case m.Stand.Age > 0:
		return term.Yellow("the store is slow: " + time.Duration(m.Stand.Age).String() + " old")
	}
	return term.Green("live")
}

// tile is a figure and its name.
func tile(name, value string, t Tone) string { return term.Faint(name) + " " + painted(value, t) }

// flowed sets texts side by side in lines that fit.
func flowed(parts []string, width int) (lines []string) {
	const gap = "   "
	for _, p := range parts {
		if n := len(lines) - 1; n >= 0 && lipgloss.Width(lines[n]+gap+p) <= width {
			lines[n] += gap + p
			continue
		}
		lines = append(lines, p)
	}
	return lines
}

// above is what stands above a list: on the overview all that matters, else which part is listed.
func (m *Model) above(width int) []string {
	if m.Stand == nil {
		return nil
	}
	if m.Screen != Overview {
		oldest := m.oldest()
		lines := flowed(append([]string{oldest}, m.tasksNow()...), width)
		if text := m.filterText(); text != "" {
			lines = append(lines, text)
		}
		return lines
	}
	lines := flowed(append([]string{m.oldest()}, m.tasksNow()...), width)
	lines = append(lines, flowed(m.houseNow(), width)...)
	lines = append(lines, m.throughput(width)...)
	if fleet := m.fleet(width); fleet != "" {
		lines = append(lines, fleet)
	}
	if text := m.filterText(); text != "" {
		lines = append(lines, text)
	}
	return lines
}

func (m *Model) oldest() string {
	o := m.Stand.OldestReady
	if o == nil {
		return tile("oldest ready", "none", Good)
	}
	tone := Plain
	switch age := time.Duration(o.Age); {
	case age > 10*time.Minute:
		tone = Bad
	case age > time.Minute:
		tone = Busy
	}
	return tile("oldest ready", Span(time.Duration(o.Age)), tone) + " " + term.OneLine(o.Queue)
}

// Span is a duration as people say it, in its two largest units.
func Span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

func (m *Model) tasksNow() []string {
	o := m.Stand
	running := term.Count(o.Running)
	if o.Capacity > 0 {
		running += fmt.Sprintf(" of %v", o.Capacity)
	}
	dead := Plain
	if o.DeadHour > 0 {
		dead = Bad
	}
	return []string{
		tile("ready", term.Count(o.Ready), Plain), tile("waiting",
			besides(term.Count(o.Waiting), o.Blocked, "blocked"), Plain),
		tile("running", running, Plain), tile("dead in 1 h", term.Count(o.DeadHour), dead),
	}
}

// besides adds to a text how many are worth a word.
func besides[T int | int64](text string, n T, what string) string {
	if n == 0 {
		return text
	}
	return text + ", " + term.Count(n) + " " + what
}

// if0 is calm as long as nothing is wrong.
func if0[T int | int64](wrong T) Tone {
	if wrong > 0 {
		return Bad
	}
	return Plain
}

// houseNow is how nodes, workers, schedules and jobs stand.
func (m *Model) houseNow() []string {
	o := m.Stand
	working, gone := 0, 0
	for _, n := range o.Nodes {
		switch n.State {
		case view.NodeWorking:
			working++
		case view.NodeOffline, view.NodeUnreachable:
			gone++
		}
	}
	w := o.Workers
	workers := besides(besides(term.Count(w.Active+w.Draining+w.Silent), w.Draining, "draining"),
		w.Silent, "silent")
	parts := []string{
		tile("nodes", besides(term.Count(working), gone, "gone"), if0(gone)),
		tile("workers", workers, if0(w.Silent)),
		tile("schedules", besides(besides(term.Count(o.Schedules.Total), o.Schedules.Late, "late"),
			o.Schedules.Paused, "paused"), if0(o.Schedules.Late)),
	}
	if j := o.Jobs; j.Wanted > 0 {
		text := term.Count(j.Running) + " of " + term.Count(j.Wanted)
		parts = append(parts, tile("jobs", besides(besides(text, j.Pending, "pending"), j.Failed,
			"failed"), if0(j.Pending+j.Failed)))
	}
	if o.Budget != nil {
		text := term.Plural(*o.Budget, "node")
		if o.BudgetWorkers != nil {
			text += ", " + term.Plural(*o.BudgetWorkers, "worker")
		}
		parts = append(parts, tile("may die", text, Plain))
	}
	return parts
}

// throughput draws what was done and what came in.
func (m *Model) throughput(width int) []string {
	done := rates(m.past, func(t view.Totals) int64 { return t.Done })
	came := rates(m.past, func(t view.Totals) int64 { return t.Submitted })
	if len(done) == 0 {
		return nil
	}
	last := func(list []float64) string { return term.Number(list[len(list)-1]) }
	room := min((width-36)/2, maxPast)
	if room < 8 {
		room = 8
	}
	return flowed([]string{
		tile("done/s", fmt.Sprintf("%-6s", last(done)), Plain) + " " +
			term.Green(spark(done, room)),
		tile("in/s", fmt.Sprintf("%-6s", last(came)), Plain) + " " + term.Cyan(spark(came, room)),
	}, width)
}

// fleet has a cell for each worker, as high as its load, in the order of nodes.
func (m *Model) fleet(width int) string {
	o := m.Stand
	if len(o.Fleet) == 0 {
		return ""
	}
	const name = "fleet "
	room := width - len(name) - 12
	var b strings.Builder
	b.WriteString(term.Faint(name))
	shown := 0
	for i, w := range o.Fleet {
		if shown >= room {
			break
		}
		if i > 0 && w.Node != o.Fleet[i-1].Node {
			b.WriteByte(' ')
			shown++
		}
		b.WriteString(fleetCell(&w))
		shown++
	}
	cells := 0
	for i := range o.Fleet {
		if i > 0 && o.Fleet[i].Node != o.Fleet[i-1].Node {
			cells++
		}
		cells++
	}
	if left := cells - shown + o.FleetLeftOut; left > 0 {
		b.WriteString(term.Faint(" +" + term.Count(left)))
	}
	return b.String()
}

func fleetCell(w *view.FleetWorker) string {
	switch w.State {
	case task.WorkerSilent:
		return term.Red("×")
	case task.WorkerDraining:
		return term.Yellow(term.Block(float64(w.Running+w.Jobs), w.Capacity))
	}
	return term.Green(term.Block(float64(w.Running+w.Jobs), w.Capacity))
}

// overviewHeads are those of the overview's list of queues.
var overviewHeads = []string{
	"QUEUE", "STATE", "#OLDEST", "#READY", "#WAITING", "#RUNNING", "#IN/S", "#DONE/S", "#DEAD",
}

// overviewRows are the queues of an overview, which begins with the oldest.
func (m *Model) overviewRows() []Row {
	if m.Stand == nil {
		return nil
	}
	rows := make([]Row, 0, len(m.Stand.Queues))
	from, to, seconds := back(m.past)
	for _, q := range m.Stand.Queues {
		came, done := "", ""
		if in, out, known := queueRates(from, to, seconds, q.Queue); known {
			came, done = term.Number(in), term.Number(out)
		}
		state, oldest := Cell{"open", Good}, Cell{}
		switch {
		case q.Paused:
			state = Cell{"paused", Busy}
		case q.Limited:
			state = Cell{"limited", Busy}
		}
		if q.OldestReady != nil {
			oldest.Text = Span(time.Duration(*q.OldestReady))
		}
		rows = append(rows, Row{q.Queue, []Cell{
			{Text: q.Queue}, state, oldest, {Text: term.Count(q.Ready)},
			{Text: term.Count(q.Waiting)}, {Text: term.Count(q.Running)},
			{Text: came}, {Text: done}, {Text: term.Count(q.Dead), Tone: if0(q.Dead)},
		}})
	}
	return rows
}

// Curves of a queue: how wide they are, and what lies between columns.
const (
	leastCurve = 6
	mostCurve  = 30
	curveGap   = 2
)

// curved are rows of the overview's list with what came and was done lately behind them, drawn; of
// what was done alone where there is no room for both, and of nothing where there is none.
func (m *Model) curved(heads []string, rows []Row, width int) ([]string, []Row) {
	room := width
	for _, w := range columns(heads, rows, width) {
		room -= w + curveGap
	}
	both := room >= 2*leastCurve+curveGap
	if both {
		room = (room - curveGap) / 2
	}
	if room = min(room, mostCurve); room < leastCurve || len(m.past) < 2 {
		return heads, rows
	}
	heads = slices.Clone(heads)
	if both {
		heads = append(heads, "IN")
	}
	heads = append(heads, "DONE")
	list := make([]Row, len(rows))
	for i, r := range rows {
		cells := slices.Clone(r.Cells)
		came, done := queueCurves(m.past, r.ID, room)
		if both {
			cells = append(cells, curveCell(came, room))
		}
		list[i] = Row{r.ID, append(cells, curveCell(done, room))}
	}
	return heads, list
}

// curveCell has the newest value at its right end.
func curveCell(values []float64, width int) Cell {
	return Cell{strings.Repeat(" ", max(width-len(values), 0)) + spark(values, width), Picture}
}

// helpLines say what keys do.
func helpLines(width int) []string {
	var lines []string
	for _, l := range [][2]string{
		{"1 … 8, tab, ← →", "the screens: overview, queues, workers, tasks, groups, schedules, nodes, events"},
		{"↑ ↓, j k", "move; page up and down, home and end (g, G) go further"},
		{"enter", "all that is known of what is under the cursor, and why it does not run; esc goes back"},
		{"/", "show what contains all of some words; esc shows all again"},
		{"space", "freeze what is shown; again: go on"},
		{"t, K", "the tasks of a queue, its group keys; esc goes back from these"},
		{"s", "tasks of the next state: dead, running, ready, waiting, done, cancelled, expired, any"},
		{"c, r", "cancel a task, retry one that is over"},
		{"d, D", "drain a worker, let it take work again"},
		{"p, P", "pause a queue, group key, group or schedule, resume it"},
		{"ctrl+z", "put this aside; fg brings it back"},
		{"q, ctrl+c", "quit"},
	} {
		const indent = 18
		for i, text := range wrapped(l[1], width-indent) {
			name := ""
			if i == 0 {
				name = l[0]
			}
			pad := strings.Repeat(" ", indent-lipgloss.Width(name))
			lines = append(lines, term.Bold(name)+pad+text)
		}
	}
	return append(lines, "", term.Faint("What is done to things is asked before: y does it."))
}
