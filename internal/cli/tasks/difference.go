package tasks

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rotahq/rota/internal/term"
)

const (
	comparedBytes = 64 << 10 // of a text: of a longer one only the beginning is shown and compared
	comparedDepth = 100      // of JSON that is laid out in lines
	comparedPairs = 1 << 20  // of lines, between what is the same at both ends
)

// linesOf lays a context out in lines that a terminal can show; cut: they are not all of it.
func linesOf(text json.RawMessage) (lines []string, cut bool) {
	var b bytes.Buffer
	switch {
	case len(text) == 0:
		b.WriteString("(none)")
	case len(text) > comparedBytes:
		cut = true
		b.Write(text[:comparedBytes])
	case depthOf(text) > comparedDepth || json.Indent(&b, text, "", "  ") != nil:
		b.Reset()
		b.Write(text)
	}
	return term.Lines(strings.ToValidUTF8(b.String(), "\ufffd")), cut
}

// depthOf is at least how deep the values of a JSON text are nested.
func depthOf(text []byte) (most int) {
	depth := 0
	for _, c := range text {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		most = max(most, depth)
	}
	return most
}

// difference leads from one list of lines to another: what only the first has begins with -, what
// only the second has with +. Between the lines that are the same at both ends those match that are
// in a longest common sequence, or none where there are too many.
func difference(from, to []string) (out []string) {
	head := 0
	for head < min(len(from), len(to)) && from[head] == to[head] {
		out = append(out, "  "+from[head])
		head++
	}
	tail := 0
	for tail < min(len(from), len(to))-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	a, b := from[head:len(from)-tail], to[head:len(to)-tail]
	best := longest(a, b)
	for len(a) > 0 || len(b) > 0 {
		at := func(i, j int) int { // nothing is common where nothing was looked for
			if best == nil {
				return 0
			}
			return best[len(best)-1-i][j]
		}
		switch {
		case best != nil && len(a) > 0 && len(b) > 0 && a[0] == b[0]:
			out = append(out, "  "+a[0])
			a, b = a[1:], b[1:]
		case len(a) > 0 && (len(b) == 0 || at(len(a)-1, len(b)) >= at(len(a), len(b)-1)):
			out = append(out, "- "+a[0])
			a = a[1:]
		default:
			out = append(out, "+ "+b[0])
			b = b[1:]
		}
	}
	for _, line := range from[len(from)-tail:] {
		out = append(out, "  "+line)
	}
	return out
}

// longest is how many lines the ends of two lists have in common: of the last i of a and the last j
// of b at [len(a)-i][j]; nil when that is too much to look at.
func longest(a, b []string) [][]int {
	if len(a)*len(b) > comparedPairs {
		return nil
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for i := 1; i <= len(a); i++ {
		row, before := rows[len(a)-i], rows[len(a)-i+1]
		for j := 1; j <= len(b); j++ {
			if row[j] = max(before[j], row[j-1]); a[len(a)-i] == b[len(b)-j] {
				row[j] = before[j-1] + 1
			}
		}
	}
	return rows
}
