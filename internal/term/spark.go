package term

import (
	"math"
	"strings"
)

// blocks are the heights of a column.
var blocks = []rune("▁▂▃▄▅▆▇█")

// Block is a column as high as the share that n is of all: the lowest at nothing, and full at all
// and beyond.
func Block(n, all float64) string {
	height := 1
	if n > 0 && all > 0 {
		height = int(min(math.Ceil(n/all*float64(len(blocks))), float64(len(blocks))))
	}
	return string(blocks[height-1])
}

// Spark draws numbers as columns of one line, the highest number as a full one. What is above zero
// is seen, however little it is; what is below, for instance -1 for what nobody knows, is left
// blank, as zero is.
func Spark(numbers []float64) string {
	most := 0.0
	for _, n := range numbers {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range numbers {
		if n <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteString(Block(n, most))
	}
	return b.String()
}
