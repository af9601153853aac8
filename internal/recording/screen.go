package recording

import (
	"bytes"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Pen is how a cell is written.
type Pen struct {
	Colour int // 0 = the usual one, else 30 to 37 as SGR counts them
	Faint  bool
	Bold   bool
}

// Cell is one place of a screen. A wide character has its text in the first of its two cells.
type Cell struct {
	Text string // "" = nothing was written here
	Pen  Pen
}

// Screen is a terminal as far as programs use one that write lines, colour them, and draw the last
// one again: line feeds, carriage returns, colours, and erasing to the end of a line. Other
// sequences are left out. Its zero value is of no use: see NewScreen.
type Screen struct {
	width  int
	rows   [][]Cell // those that are seen, top first
	x, y   int      // 0 <= y < len(rows); x == width: the next character begins a row
	pen    Pen
	state  byte
	parser *ansi.Parser
	rest   []byte // of a sequence that is not whole yet
}

// NewScreen is an empty screen.
func NewScreen(width, height int) *Screen {
	s := &Screen{width: width, rows: make([][]Cell, height), parser: ansi.NewParser()}
	for i := range s.rows {
		s.rows[i] = make([]Cell, width)
	}
	return s
}

// Write shows what a program wrote. A sequence or a character may be cut anywhere.
func (s *Screen) Write(b []byte) (int, error) {
	all := append(s.rest, b...)
	whole := len(all) - unfinished(all)
	for part := all[:whole]; len(part) > 0; {
		seq, width, n, state := ansi.DecodeSequence(part, s.state, s.parser)
		s.state, part = state, part[n:]
		switch {
		case width > 0:
			s.put(string(seq), width)
		case len(seq) == 1:
			s.control(seq[0])
		case bytes.HasPrefix(seq, []byte("\x1b[")):
			s.command()
		}
	}
	s.rest = append([]byte{}, all[whole:]...)
	return len(b), nil
}

// unfinished is how many bytes at the end are the beginning of something that goes on.
func unfinished(b []byte) int {
	const longest = 256 // a sequence that is longer is none
	for n := 1; n <= min(len(b), longest); n++ {
		tail := b[len(b)-n:]
		switch c := tail[0]; {
		case c == ansi.ESC:
			if !ends(tail) {
				return n
			}
			return 0
		case c >= 0xc0:
			if n < runeLength(c) {
				return n
			}
			return 0
		case c == '\n' || c == '\r':
			return 0
		}
	}
	return 0
}

// ends tells whether the sequence at the beginning is whole: a title goes on to its bell, others to
// their letter.
func ends(b []byte) bool {
	if len(b) < 3 {
		return false
	}
	if b[1] == ']' {
		return bytes.IndexByte(b, ansi.BEL) > 0 || bytes.Contains(b, []byte("\x1b\\"))
	}
	return bytes.IndexFunc(b[2:], func(r rune) bool { return r >= '@' && r <= '~' }) >= 0
}

// runeLength is how many bytes a character of UTF-8 has that begins so.
func runeLength(first byte) int {
	switch {
	case first >= 0xf0:
		return 4
	case first >= 0xe0:
		return 3
	default:
		return 2
	}
}

// put writes a character, and begins a row where there is no room for it.
func (s *Screen) put(text string, width int) {
	if s.x+width > s.width {
		s.x = 0
		s.feed()
	}
	row := s.rows[s.y]
	row[s.x] = Cell{text, s.pen}
	for i := 1; i < width; i++ {
		row[s.x+i] = Cell{}
	}
	s.x += width
}

// feed goes a row down; at the bottom all rows go up.
func (s *Screen) feed() {
	if s.y < len(s.rows)-1 {
		s.y++
		return
	}
	copy(s.rows, s.rows[1:])
	s.rows[s.y] = make([]Cell, s.width)
}

func (s *Screen) control(c byte) {
	switch c {
	case '\n':
		s.feed()
	case '\r':
		s.x = 0
	case '\b':
		s.x = max(min(s.x, s.width)-1, 0)
	}
}

// command carries out the sequence that the parser has read.
func (s *Screen) command() {
	switch ansi.Cmd(s.parser.Command()) {
	case 'K':
		s.erase()
	case 'm':
		s.colour()
	}
}

// erase empties a part of the row: from here on, up to here, or all of it.
func (s *Screen) erase() {
	what, _ := s.parser.Param(0, 0)
	from, to := s.x, s.width
	switch what {
	case 1:
		from, to = 0, min(s.x+1, s.width)
	case 2:
		from = 0
	}
	if from < to {
		clear(s.rows[s.y][from:to])
	}
}

// colour takes another pen.
func (s *Screen) colour() {
	if len(s.parser.Params()) == 0 {
		s.pen = Pen{}
	}
	for _, p := range s.parser.Params() {
		switch n := p.Param(0); {
		case n == 0:
			s.pen = Pen{}
		case n == 1:
			s.pen.Bold = true
		case n == 2:
			s.pen.Faint = true
		case n == 22:
			s.pen.Bold, s.pen.Faint = false, false
		case n >= 30 && n <= 37:
			s.pen.Colour = n
		case n >= 90 && n <= 97:
			s.pen.Colour = n - 60
		case n == 39:
			s.pen.Colour = 0
		}
	}
}

// Rows are the rows as they are now.
func (s *Screen) Rows() [][]Cell {
	rows := make([][]Cell, len(s.rows))
	for i := range rows {
		rows[i] = append([]Cell{}, s.rows[i]...)
	}
	return rows
}

// String is the text without colours, a line each, without spaces at the ends of lines.
func (s *Screen) String() string {
	var b strings.Builder
	for _, row := range s.rows {
		b.WriteString(strings.TrimRight(textOf(row), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// textOf is the text of a row.
func textOf(row []Cell) string {
	var b strings.Builder
	for i := 0; i < len(row); i++ {
		if row[i].Text == "" {
			b.WriteByte(' ')
			continue
		}
		b.WriteString(row[i].Text)
		i += ansi.StringWidth(row[i].Text) - 1
	}
	return b.String()
}
