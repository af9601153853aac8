package term

import (
	"math"
	"strings"
)

// blocks are the heights that a column of Spark may have, but for the lowest, which is nothing.
var blocks = []rune("▁▂▃▄▅▆▇█")

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
		height := math.Ceil(n / most * float64(len(blocks)))
		b.WriteRune(blocks[int(height)-1])
	}
	return b.String()
}
