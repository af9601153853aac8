package main

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// publish writes the figure's plot, and puts it with its table into the place that its package's
// page has for them.
func (f *figure) publish(docs string) error {
	images := filepath.Join(docs, "img")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return fmt.Errorf("publish %s: %w", f.name, err)
	}
	if err := os.WriteFile(filepath.Join(images, f.name+".svg"), f.plot(), 0o644); err != nil {
		return fmt.Errorf("publish %s: %w", f.name, err)
	}
	name := filepath.Join(docs, f.pkg+".md")
	page, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("publish %s: %w", f.name, err)
	}
	page, err = f.replace(page)
	if err != nil {
		return fmt.Errorf("publish %s in %s: %w", f.name, name, err)
	}
	if err := os.WriteFile(name, page, 0o644); err != nil {
		return fmt.Errorf("publish %s: %w", f.name, err)
	}
	return nil
}

// replace puts the figure's plot and table between its marks in a page.
func (f *figure) replace(page []byte) ([]byte, error) {
	begin, end := fmt.Appendf(nil, "<!-- figures: %s -->\n", f.name), []byte("<!-- end -->")
	before, rest, found := bytes.Cut(page, begin)
	if !found {
		return nil, fmt.Errorf("no line %q", begin)
	}
	_, after, found := bytes.Cut(rest, end)
	if !found {
		return nil, fmt.Errorf("no %q after %q", end, begin)
	}
	figures := fmt.Appendf(nil, "![%s](img/%s.svg)\n\n%s\n%s\n\n", f.title, f.name, f.table(),
		f.how)
	return bytes.Join([][]byte{before, begin, figures, end, after}, nil), nil
}

// conditions says where and how a package's figures came about.
func (c *config) conditions(pkg string) string {
	return fmt.Sprintf("Medians of %d rounds on %d cores (%s), %s, %s; `cd bench && go run ./machines -only %s -rounds %d -least %v -docs ../docs`.",
		c.rounds, runtime.NumCPU(), machine(), runtime.Version(),
		time.Now().UTC().Format(time.DateOnly), pkg, c.rounds, c.least)
}

// machine is the processor's name.
func machine() string {
	cpus, _ := os.ReadFile("/proc/cpuinfo") // nothing is found when there is none
	for line := range strings.Lines(string(cpus)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Join(strings.Fields(strings.TrimLeft(name, "\t :")), " ")
		}
	}
	return runtime.GOARCH
}

// Sizes of a plot, in pixels.
const (
	plotWidth  = 760
	barLeft    = 150 // where bars begin
	barRight   = 640 // where the longest ends
	barHeight  = 18
	lineHeight = 24
	headHeight = 56
	rowGap     = 30 // above the bars of a row, for its name
)

// plot draws the medians as bars, each row to its own scale. Rota's are in another colour.
func (f *figure) plot() []byte {
	height := headHeight + 12
	for _, r := range f.rows {
		height += rowGap + len(r.contenders)*lineHeight
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, sans-serif" font-size="13">
<title>%s</title>
<rect width="100%%" height="100%%" rx="6" fill="#ffffff"/>
<text x="16" y="26" font-size="15" font-weight="600" fill="#1b1f24">%s</text>
<text x="16" y="45" fill="#57606a">%s, less is better; each group to its own scale</text>
`, plotWidth, height, plotWidth, height, html.EscapeString(f.title), html.EscapeString(f.title),
		html.EscapeString(f.unit))
	y := headHeight
	for _, r := range f.rows {
		fmt.Fprintf(&b, `<text x="16" y="%d" font-weight="600" fill="#1b1f24">%s</text>`+"\n",
			y+rowGap-9, html.EscapeString(r.what))
		y += rowGap
		longest := 0.0
		for _, c := range r.contenders {
			longest = max(longest, median(c.values))
		}
		for i, c := range r.contenders {
			colour := "#8c959f"
			if i == 0 {
				colour = "#1a7f64"
			}
			value := median(c.values)
			width := max(float64(barRight-barLeft)*value/longest, 1)
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#1b1f24">%s</text>`,
				barLeft-10, y+barHeight-4, html.EscapeString(c.name))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`,
				barLeft, y, width, barHeight, colour)
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#1b1f24">%s</text>`+"\n", barLeft+width+8,
				y+barHeight-4, number(value))
			y += lineHeight
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
