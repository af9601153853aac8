package recording

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// What a cell measures, and what is left around all of them, in pixels.
const (
	cellWidth, cellHeight = 8.4, 18
	base                  = 13 // of the letters, below the upper edge
	margin                = 14
)

// colours are those of a dark terminal, by their SGR.
var colours = map[int]string{
	31: "#ff7b72", 32: "#56d364", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea",
}

// SVG draws a film. Each row is a strip of all that it ever shows, side by side, the last one where
// it is seen: so what does not animate, or is asked not to, shows the end. CSS moves the strips, by
// a step at each change.
func (f *Film) SVG(title string) []byte {
	width := 2*margin + float64(f.Width)*cellWidth
	height := 2*margin + f.Height*cellHeight
	var style, rows bytes.Buffer
	for i, shots := range f.Rows {
		if len(shots) == 1 && blank(shots[0].Cells) {
			continue
		}
		fmt.Fprintf(&rows, `<g id="r%d" transform="translate(0 %d)"><g>`, i, margin+i*cellHeight)
		for k, shot := range shots {
			f.draw(&rows, shot.Cells, margin-float64(len(shots)-1-k)*width)
		}
		rows.WriteString("</g></g>\n")
		if len(shots) > 1 {
			f.steps(&style, i, shots, width)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d"`+
		` viewBox="0 0 %.0f %d" role="img">
<title>%s</title>
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:#e6edf3;white-space:pre}
.f{fill:#8b949e}.b{font-weight:700}%s
g>g{animation:%.1fs steps(1,end) infinite}
%s@media (prefers-reduced-motion:reduce){g>g{animation:none!important}}
</style>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
%s</svg>
`, width, height, width, height, escaped(title), colourRules(), f.Length.Seconds(), style.String(),
		rows.String())
	return b.Bytes()
}

func colourRules() string {
	var b strings.Builder
	for n := 30; n <= 37; n++ {
		if c := colours[n]; c != "" {
			fmt.Fprintf(&b, ".c%d{fill:%s}", n, c)
		}
	}
	return b.String()
}

// steps writes when a row's strip stands where.
func (f *Film) steps(b *bytes.Buffer, row int, shots []Shot, width float64) {
	fmt.Fprintf(b, "#r%d>g{animation-name:k%d}@keyframes k%d{", row, row, row)
	for k, shot := range shots {
		fmt.Fprintf(b, "%s%%{transform:translate(%spx)}",
			short(100*shot.At.Seconds()/f.Length.Seconds()),
			short(float64(len(shots)-1-k)*width))
	}
	b.WriteString("100%{transform:none}}\n")
}

// draw writes a row from x on: a text for each run of cells of one pen. Where letters are of
// another width than ours they are fitted in.
func (f *Film) draw(b *bytes.Buffer, row []Cell, x float64) {
	for i := 0; i < len(row); {
		if empty(row[i]) {
			i++
			continue
		}
		end, text := i, ""
		for end < len(row) && row[end].Pen == row[i].Pen && !gap(row[end:]) {
			text += cellText(row[end])
			end += max(ansi.StringWidth(row[end].Text), 1)
		}
		class := ""
		if c := classOf(row[i].Pen); c != "" {
			class = ` class="` + c + `"`
		}
		fmt.Fprintf(b, `<text x="%s" y="%d"%s textLength="%s">%s</text>`,
			short(x+float64(i)*cellWidth), base, class, short(float64(end-i)*cellWidth),
			escaped(text))
		i = end
	}
}

func empty(c Cell) bool { return c.Text == "" || c.Text == " " }

// gap tells whether nothing is written in the next two cells, or in all that are left.
func gap(row []Cell) bool {
	return empty(row[0]) && (len(row) == 1 || empty(row[1]))
}

func cellText(c Cell) string {
	if c.Text == "" {
		return " "
	}
	return c.Text
}

func blank(row []Cell) bool {
	for _, c := range row {
		if !empty(c) {
			return false
		}
	}
	return true
}

func classOf(p Pen) string {
	var all []string
	if p.Faint {
		all = append(all, "f")
	}
	if p.Bold {
		all = append(all, "b")
	}
	if colours[p.Colour] != "" {
		all = append(all, fmt.Sprint("c", p.Colour))
	}
	return strings.Join(all, " ")
}

// short writes a number with two digits behind the point at most.
func short(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes all
	return b.String()
}
