package simulate

import (
	"fmt"
	"html"
	"strings"

	"github.com/rotahq/rota/internal/term"
)

// Sizes of a picture, in pixels.
const (
	pictureWidth  = 760 // of all steps
	pictureHeight = 480 // of all workers
	pictureLeast  = 500 // of the whole, so that its texts are never cut off
	pictureTop    = 24
	labelWidth    = 90
	barsHeight    = 60
	lineHeight    = 15
)

// maxTold is how many events a picture tells in words; every one has its line and its title.
const maxTold = 40

// pictureStyle is readable on light and dark.
const pictureStyle = `<style>
  text { font: 11px system-ui, sans-serif; fill: #333 }
  .load { fill: #1769aa } .grid { fill: none; stroke: #8888; stroke-width: .5 } .event { stroke: #c77700; stroke-dasharray: 3 2 }
  .change { fill: #2e8540 } .pending { fill: #c0392b }
  @media (prefers-color-scheme: dark) { text { fill: #ddd } .load { fill: #5ab0f5 } .change { fill: #67c77a } .pending { fill: #ff7b6b } }
</style>
`

// drawLoads is a picture of the loads over time, as SVG: a row for each worker, a column for each
// step, the darker the greater the share of capacity in use; below it what was started and moved,
// what waits, and what happened.
func drawLoads(s *simulation) string {
	width := min(max(float64(pictureWidth)/float64(max(len(s.steps), 1)), .5), 36)
	height := min(max(float64(pictureHeight)/float64(max(len(s.names), 1)), .5), 18)
	p := picture{simulation: s, cell: width, row: height}
	p.rows()
	changed, first := "started and moved", 0
	if !s.placed { // the first placing of everything would leave nothing to be seen of the rest
		changed, first = "started and moved after step 0", 1
	}
	y := p.bars(p.bottom(), changed, "change", first, func(step stepResult) int {
		return step.Start + step.Moves
	})
	y = p.bars(y, "pending", "pending", 0, func(step stepResult) int { return step.Pending })
	y = p.steps(y)
	y = p.events(y)
	label := fmt.Sprintf("loads of %s in %s", term.Plural(len(s.names), "worker"),
		term.Plural(len(s.steps), "step"))
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+
		"\n",
		max(p.right()+20, pictureLeast), y+lineHeight,
		label) + pictureStyle + p.String() + "</svg>\n"
}

// picture is an SVG in the making.
type picture struct {
	strings.Builder
	*simulation
	cell float64 // width of a step
	row  float64 // height of a worker
}

func (p *picture) right() float64  { return labelWidth + p.cell*float64(len(p.simulation.steps)) }
func (p *picture) bottom() float64 { return pictureTop + p.row*float64(len(p.names)) }

func (p *picture) text(x, y float64, anchor, text string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor,
		html.EscapeString(text))
}

// rows draws the workers. Steps with the same share are one piece.
func (p *picture) rows() {
	p.text(labelWidth, 14, "start",
		"share of capacity in use, by worker and step: the darker, the fuller")
	for i, name := range p.names {
		y := pictureTop + p.row*float64(i)
		if p.row >= 9 {
			p.text(labelWidth-6, y+p.row/2+4, "end", name)
		}
		steps := p.simulation.steps
		for from := 0; from < len(steps); {
			share, there := steps[from].shares[name]
			to := from + 1
			for to < len(steps) {
				next, still := steps[to].shares[name]
				if still != there || next != share {
					break
				}
				to++
			}
			if there {
				p.piece(name, y, from, to, share)
			}
			from = to
		}
	}
	fmt.Fprintf(p, `<rect class="grid" x="%d" y="%d" width="%.1f" height="%.1f"/>`+"\n",
		labelWidth, pictureTop, p.right()-labelWidth, p.bottom()-pictureTop)
}

func (p *picture) piece(name string, y float64, from, to int, share float64) {
	first, last := p.simulation.steps[from].Step, p.simulation.steps[to-1].Step
	title := fmt.Sprintf("%s, steps %d to %d: %.1f %%", html.EscapeString(name), first, last,
		100*share)
	fmt.Fprintf(p,
		`<rect class="load" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill-opacity="%.2f"><title>%s</title></rect>`+
			"\n",
		labelWidth+p.cell*float64(from), y, p.cell*float64(to-from), p.row, .05+.95*min(share, 1),
		title)
}

// bars draws one number of each step from the first on, below y, and answers where it ends.
func (p *picture) bars(
	y float64, title, class string, first int, of func(stepResult) int,
) (bottom float64) {
	top := y + 24
	bottom = top + barsHeight
	steps := p.simulation.steps[min(first, len(p.simulation.steps)):]
	most := 0
	for _, step := range steps {
		most = max(most, of(step))
	}
	p.text(labelWidth, top-6, "start", title)
	p.text(labelWidth-6, top+10, "end", term.Count(most))
	for i, step := range steps {
		n := of(step)
		if n == 0 {
			continue
		}
		height := barsHeight * float64(n) / float64(most)
		fmt.Fprintf(p,
			`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>step %d: %d</title></rect>`+
				"\n",
			class, labelWidth+p.cell*float64(first+i), bottom-height, max(p.cell-1, .5), height,
			step.Step, n)
	}
	fmt.Fprintf(p, `<path class="grid" d="M%d %.1fH%.1f"/>`+"\n", labelWidth, bottom, p.right())
	return bottom + 10
}

// steps numbers the columns below y, draws a line through all where something happened, and answers
// where it ends.
func (p *picture) steps(y float64) (bottom float64) {
	every := max(1, int(40/p.cell))
	for i, step := range p.simulation.steps {
		x := labelWidth + p.cell*(float64(i)+.5)
		if i%every == 0 {
			p.text(x, y+lineHeight, "middle", fmt.Sprint(step.Step))
		}
		if len(step.Events) > 0 {
			fmt.Fprintf(p,
				`<path class="event" d="M%.1f %dV%.1f"><title>step %d: %s</title></path>`+"\n",
				x-p.cell/2, pictureTop, y, step.Step,
				html.EscapeString(strings.Join(step.Events, "; ")))
		}
	}
	return y + 2*lineHeight
}

// events tells below y what happened, a line for each step, and answers where it ends.
func (p *picture) events(y float64) (bottom float64) {
	told := 0
	for _, step := range p.simulation.steps {
		if len(step.Events) == 0 {
			continue
		}
		if told++; told > maxTold {
			p.text(labelWidth, y+lineHeight, "start", "and more")
			return y + lineHeight
		}
		y += lineHeight
		p.text(labelWidth-6, y, "end", fmt.Sprintf("step %d", step.Step))
		p.text(labelWidth, y, "start", strings.Join(step.Events, "; "))
	}
	return y
}
