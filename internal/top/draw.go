package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/task"
)

// Smallest screen that is drawn on; a smaller one is told so.
const (
	minWidth  = 40
	minHeight = 10
)

// Lines draws the model on a screen: at most height lines, none wider than width.
func (m *Model) Lines(width, height int) []string {
	if width < minWidth || height < minHeight {
		return []string{ansi.Truncate("too small a terminal", max(width, 0), "")}
	}
	lines := m.title(width)
	switch {
	case m.help:
		lines = append(lines, "")
		lines = append(lines, helpLines(width)...)
	case m.detail != nil:
		lines = append(lines, "")
		lines = append(lines, m.detailLines(width, height-len(lines)-1)...)
	default:
		lines = append(lines, m.above(width)...)
		lines = append(lines, bar(m.shown(), width))
		lines = append(lines, m.table(width, height-len(lines)-1)...)
	}
	lines = lines[:min(len(lines), height-1)]
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.bottom(width))
	for i := range lines { // whatever was put together: nothing leaves its line
		lines[i] = ansi.Truncate(lines[i], width, "…")
	}
	return lines
}

// Snapshot is the overview as text that stands for itself, for what is no terminal: nothing of it
// is cut.
func (m *Model) Snapshot(width int) string {
	const all = 1 << 16
	lines := append(m.title(width), m.above(width)...)
	if rows := m.rows(); len(rows) > 0 {
		lines = append(lines, "")
		lines = append(lines, drawRows(overviewHeads, rows, all, -1)...)
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// bar names the screens, the one that is shown in bold.
func bar(shown Screen, width int) string {
	parts := make([]string, onBar)
	for i, name := range names[:onBar] {
		parts[i] = fmt.Sprint(i+1) + " " + name
		if Screen(i) == shown {
			parts[i] = term.Bold("[" + parts[i] + "]")
		}
	}
	for _, gap := range []string{"  ", " "} {
		if text := strings.Join(parts, gap); lipgloss.Width(text) <= width {
			return text
		}
	}
	for i := range parts { // only the one that is shown has its name
		if Screen(i) != shown {
			parts[i] = fmt.Sprint(i + 1)
		}
	}
	return strings.Join(parts, " ")
}

// table is the list on the screen: a head and as many rows as fit, with the one under the cursor.
func (m *Model) table(width, height int) []string {
	if height < 2 {
		return nil
	}
	known, read := m.lists[m.query()]
	heads := known.Heads
	if m.Screen == Overview {
		heads, read = overviewHeads, m.Stand != nil
	}
	rows := m.rows()
	switch {
	case m.Screen != Overview && known.Err != nil && len(rows) == 0:
		return wrapped(term.Red(term.OneLine(known.Err.Error())), width)
	case !read:
		return []string{term.Faint("reading …")}
	case len(rows) == 0 && m.filter != "":
		return []string{term.Faint("nothing matches " + term.OneLine(m.filter))}
	case len(rows) == 0 && known.Note != "":
		return wrapped(term.Faint(term.OneLine(known.Note)), width)
	case len(rows) == 0:
		return wrapped(term.Faint(m.emptyText()), width)
	}
	seen := height - 1
	cursor := min(m.places[m.Screen].cursor, len(rows)-1)
	first := min(max(cursor-seen*2/3, 0), max(len(rows)-seen, 0))
	part := rows[first:min(first+seen, len(rows))]
	if m.Screen == Overview {
		heads, part = m.curved(heads, part, width)
	}
	return drawRows(heads, part, width, cursor-first)
}

// emptyText says what to do about an empty list.
func (m *Model) emptyText() string {
	switch m.Screen {
	case Overview, Queues:
		return "no queue yet: rota submit QUEUE makes one"
	case Workers:
		return "no worker: start one with rota worker --queue QUEUE -- COMMAND"
	case Tasks:
		if m.State == "" {
			return "no task"
		}
		return "no task is " + string(m.State) + "; s goes to the next state"
	case Groups:
		return "no group: rota group set NAME --replicas N makes one"
	case Schedules:
		return "no schedule: rota schedule set NAME --cron '0 3 * * *' --queue QUEUE makes one"
	case Events:
		return "nothing happened in the last hour"
	case Keys:
		return "no group key has work, and nothing is said of any"
	}
	return "none"
}

// drawRows draws a head and rows; the one at cursor stands out.
func drawRows(heads []string, rows []Row, width, cursor int) []string {
	widths := columns(heads, rows, width)
	lines := []string{term.Faint(drawn(headCells(heads), heads, widths, nil))}
	for i, r := range rows {
		if i == cursor {
			text := drawn(r.Cells, heads, widths, func(s string, _ Tone) string { return s })
			text += strings.Repeat(" ", max(width-lipgloss.Width(text), 0))
			lines = append(lines, lipgloss.NewStyle().Reverse(true).Render(text))
			continue
		}
		lines = append(lines, drawn(r.Cells, heads, widths, painted))
	}
	return lines
}

func headCells(heads []string) []Cell {
	cells := make([]Cell, len(heads))
	for i, h := range heads {
		cells[i].Text = strings.TrimPrefix(h, "#")
	}
	return cells
}

// narrowest is down to which width a column is made smaller for others.
const narrowest = 8

// columns are the widths that columns get: what they need, and when that is too much the widest
// give way first.
func columns(heads []string, rows []Row, width int) []int {
	widths := make([]int, len(heads))
	total := 2 * (len(heads) - 1)
	for i, h := range heads {
		widths[i] = lipgloss.Width(strings.TrimPrefix(h, "#"))
		for _, r := range rows {
			if i < len(r.Cells) {
				widths[i] = max(widths[i], lipgloss.Width(r.Cells[i].line()))
			}
		}
		total += widths[i]
	}
	for total > width {
		widest := 0
		for i := range widths {
			if widths[i] >= widths[widest] { // of equal ones the last
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			break
		}
		give := min(total-width, widths[widest]-narrowest)
		if second := below(widths, widths[widest]); second > 0 {
			give = min(give, max(widths[widest]-second, 1))
		}
		widths[widest] -= give
		total -= give
	}
	return widths
}

// below is the greatest width less than one.
func below(widths []int, than int) (greatest int) {
	for _, w := range widths {
		if w < than {
			greatest = max(greatest, w)
		}
	}
	return greatest
}

// drawn is a line of cells in columns.
func drawn(cells []Cell, heads []string, widths []int, paint func(string, Tone) string) string {
	if paint == nil {
		paint = func(s string, _ Tone) string { return s }
	}
	var b strings.Builder
	for i := range heads {
		cell := Cell{}
		if i < len(cells) {
			cell = cells[i]
		}
		text := ansi.Truncate(cell.line(), widths[i], "…")
		pad := strings.Repeat(" ", max(widths[i]-lipgloss.Width(text), 0))
		if strings.HasPrefix(heads[i], "#") {
			b.WriteString(pad + paint(text, cell.Tone))
		} else {
			b.WriteString(paint(text, cell.Tone) + pad)
		}
		if i < len(heads)-1 {
			b.WriteString("  ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// painted is a text in the colour of what it means.
func painted(s string, t Tone) string {
	switch t {
	case Good:
		return term.Green(s)
	case Busy:
		return term.Yellow(s)
	case Bad:
		return term.Red(s)
	case Quiet:
		return term.Faint(s)
	case Picture:
		return term.Green(s)
	}
	return s
}

// line is the cell's text without what could harm the screen.
func (c *Cell) line() string {
	if c.Tone == Picture {
		return c.Text
	}
	return term.OneLine(c.Text)
}

// wrapped is text in lines that fit.
func wrapped(text string, width int) []string {
	return strings.Split(ansi.Wrap(text, max(width, 1), ""), "\n")
}

// detailLines are what is seen of all that is known of one thing.
func (m *Model) detailLines(width, height int) []string {
	head := term.Bold(term.OneLine(m.detail.ID))
	text := m.detail.Text
	switch {
	case m.detail.Err != nil:
		text = term.Red(term.OneLine(m.detail.Err.Error()))
	case text == "":
		text = term.Faint("reading …")
	}
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, wrapped(strings.TrimRight(line, "\n"), width)...)
	}
	seen := max(height-2, 1)
	m.scroll = min(m.scroll, max(len(all)-seen, 0)) // only who draws knows where the end is
	first := m.scroll
	lines := []string{head}
	lines = append(lines, all[first:min(first+seen, len(all))]...)
	if more := len(all) - first - seen; more > 0 {
		lines = append(lines, term.Faint(term.Plural(more, "more line")))
	}
	return lines
}

// bottom is the last line: what is asked or was answered, else the keys.
func (m *Model) bottom(width int) string {
	switch {
	case m.ask != nil:
		return term.Yellow(asking(m.ask))
	case m.typing:
		return "/" + term.OneLine(m.filter) + "_"
	case m.note != "":
		note := term.OneLine(m.note)
		if m.bad {
			return term.Red(note)
		}
		return term.Green(note)
	}
	return term.Faint(m.keysText(width))
}

// keysText says what keys do here, as far as there is room.
func (m *Model) keysText(width int) string {
	if m.help {
		return "any key goes back"
	}
	const least = "? help  q quit"
	keys := m.hereText()
	if m.detail == nil {
		if text := keys + "space freeze  " + least; lipgloss.Width(text) <= width {
			return text
		}
	}
	if text := keys + least; lipgloss.Width(text) <= width {
		return text
	}
	return least
}

// hereText says what keys do on this screen.
func (m *Model) hereText() string {
	var b strings.Builder
	screen := m.Screen
	if m.detail != nil {
		screen = m.detail.Screen
		b.WriteString("esc back  ")
	} else {
		b.WriteString("enter open  / filter  ")
	}
	switch screen {
	case Overview, Queues:
		b.WriteString("t tasks  K keys  p/P pause/resume  ")
	case Workers:
		b.WriteString("d/D drain/undrain  ")
	case Tasks:
		if m.detail == nil {
			b.WriteString("s state  ")
		}
		b.WriteString("c cancel  r retry  ")
	case Groups, Schedules:
		b.WriteString("p/P pause/resume  ")
	case Keys:
		b.WriteString("p/P pause/resume  ")
		if m.detail == nil {
			b.WriteString("esc back  ")
		}
	}
	return b.String()
}

// filterText says which part of a list is shown.
func (m *Model) filterText() string {
	var parts []string
	if m.Screen == Tasks {
		state := string(m.State)
		if m.State == "" {
			state = "any state"
		}
		parts = append(parts, state)
		if m.Queue != "" {
			parts = append(parts, "queue "+m.Queue)
		}
		if l, read := m.lists[m.query()]; read && l.More {
			parts = append(parts, "the newest "+term.Count(len(l.Rows)))
		} else if read {
			parts = append(parts, term.Plural(len(l.Rows), "task"))
		}
	}
	if m.Screen == Keys {
		parts = append(parts, "group keys of queue "+m.keysOf)
		if l := m.lists[m.query()]; len(l.Rows) > 0 {
			parts = append(parts, term.Plural(len(l.Rows), "key"))
			if l.Note != "" {
				parts = append(parts, l.Note)
			}
		}
	}
	if m.filter != "" && !m.typing {
		parts = append(parts, "/"+m.filter)
	}
	return term.OneLine(strings.Join(parts, ", "))
}

// stateTone is what a task's state means.
func stateTone(s task.State) Tone {
	switch s {
	case task.Done:
		return Good
	case task.Ready, task.Running:
		return Busy
	case task.Dead, task.Expired:
		return Bad
	}
	return Quiet
}

// StateCell is a task's state.
func StateCell(s task.State) Cell { return Cell{string(s), stateTone(s)} }
