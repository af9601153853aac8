package term

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// table is text in columns. Widths are those of a terminal, where a CJK character is two wide.
// Nothing of it is ever cut: what does not fit is wrapped inside its column, and columns for which
// there is no room at all stand below their row.
type table struct {
	heads []string
	right []bool
	rows  [][]string
	Width int  // of the terminal; 0 = none, and nothing is wrapped
	Below bool // where the last column, a text, does not fit, it stands below its row
}

// Table makes a table for o.out; columns whose head begins with # hold numbers and are aligned
// right.
func (o *Output) Table(heads ...string) *table {
	t := &table{heads: make([]string, len(heads)), right: make([]bool, len(heads))}
	if t.Width, _ = Terminal(o.Out); o.Columns > 0 {
		t.Width = o.Columns
	}
	for i, head := range heads {
		t.heads[i], t.right[i] = strings.CutPrefix(head, "#")
	}
	return t
}

// Add adds a row of cells, styled or not.
func (t *table) Add(cells ...string) { t.rows = append(t.rows, cells) }

const (
	gap    = 2 // between columns
	indent = "    "
	// narrowest is down to how many columns of the terminal a text is wrapped
	narrowest = 8
)

func (t *table) String() string {
	var b strings.Builder
	last := len(t.heads) - 1
	widths := t.needed(t.rows)
	below := func(row []string) bool { // its last cell
		return t.Below && row[last] != "" && t.Width > len(indent) &&
			gap*last+sum(widths[:last])+lipgloss.Width(row[last]) > t.Width
	}
	if slices.ContainsFunc(t.rows, below) { // which then takes no room from others
		short := slices.DeleteFunc(slices.Clone(t.rows), below)
		widths[last] = t.needed(short)[last]
	}
	beside := t.fit(widths)
	t.line(&b, t.heads[:beside], widths, Faint)
	for _, row := range t.rows {
		shown := slices.Clone(row)
		under := below(row)
		if under {
			shown[last] = ""
		}
		t.line(&b, shown[:beside], widths, func(s string) string { return s })
		t.rest(&b, shown, beside)
		if under {
			for _, text := range wrap(row[last], t.Width-len(indent)) {
				b.WriteString(indent + text + "\n")
			}
		}
	}
	return b.String()
}

// needed is how wide columns are that hold these rows.
func (t *table) needed(rows [][]string) []int {
	widths := make([]int, len(t.heads))
	for i, head := range t.heads {
		widths[i] = lipgloss.Width(head)
		for _, row := range rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i]))
		}
	}
	return widths
}

// fit makes columns narrower until they fit: the widest first, none narrower than its head, and
// words in colours not at all. It says how many of them, from the left, stand beside one another.
func (t *table) fit(widths []int) (beside int) {
	if t.Width == 0 {
		return len(widths)
	}
	least := make([]int, len(widths))
	for i, head := range t.heads {
		least[i] = min(widths[i], max(lipgloss.Width(head), narrowest))
		for _, row := range t.rows {
			if strings.Contains(row[i], "\x1b") || t.right[i] {
				least[i] = max(least[i], min(lipgloss.Width(row[i]), widths[i]))
			}
		}
	}
	for beside = len(widths); beside > 1; beside-- {
		if gap*(beside-1)+sum(least[:beside]) <= t.Width {
			break
		}
	}
	for gap*(beside-1)+sum(widths[:beside]) > t.Width {
		widest := -1
		for i := range beside {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return beside
}

// line writes cells side by side, in as many lines as the longest of them takes.
func (t *table) line(b *strings.Builder, cells []string, widths []int, style func(string) string) {
	parts := make([][]string, len(cells))
	height := 1
	for i, cell := range cells {
		parts[i] = []string{cell}
		if lipgloss.Width(cell) > widths[i] {
			parts[i] = wrap(cell, widths[i])
		}
		height = max(height, len(parts[i]))
	}
	for k := range height {
		var l strings.Builder
		for i := range cells {
			cell := ""
			if k < len(parts[i]) {
				cell = parts[i][k]
			}
			pad := strings.Repeat(" ", max(widths[i]-lipgloss.Width(cell), 0))
			if t.right[i] {
				l.WriteString(pad + style(cell))
			} else {
				l.WriteString(style(cell) + pad)
			}
			if i < len(cells)-1 {
				l.WriteString(strings.Repeat(" ", gap))
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
}

// rest writes the cells that have no room beside the others: below them, each behind its head.
func (t *table) rest(b *strings.Builder, row []string, from int) {
	line := ""
	for i := from; i < len(row); i++ {
		if row[i] == "" {
			continue
		}
		part := Faint(t.heads[i]) + " " + row[i]
		if line != "" && lipgloss.Width(indent+line+"  "+part) > t.Width {
			t.under(b, line)
			line = ""
		}
		if line != "" {
			line += "  "
		}
		line += part
	}
	t.under(b, line)
}

func (t *table) under(b *strings.Builder, text string) {
	if text == "" {
		return
	}
	for _, line := range wrap(text, t.Width-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
}

// wrap breaks a text into lines that fit: between words where it can.
func wrap(text string, width int) []string {
	lines := strings.Split(ansi.Wrap(text, max(width, 1), ""), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}
