package term

import (
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestSparkShowsWhatThereIsHoweverLittle(t *testing.T) {
	for want, numbers := range map[string][]float64{
		"":         nil,
		"   ":      {0, -1, 0},
		"█":        {1e-300},
		"▁▄█":      {1, 4, 8},
		" ▁█▁█ ":   {0, 1, 1e6, 2, 1e6, -5},
		"████████": {3, 3, 3, 3, 3, 3, 3, 3},
	} {
		if got := Spark(numbers); got != want || ansi.StringWidth(got) != len(numbers) {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
}

func TestBlocksRiseWithTheirShare(t *testing.T) {
	for _, x := range []struct {
		n, all float64
		want   string
	}{
		{0, 8, "▁"}, {1e-9, 8, "▁"}, {1, 8, "▁"}, {1.1, 8, "▂"}, {4, 8, "▄"}, {8, 8, "█"},
		{9, 8, "█"}, {3, 0, "▁"}, {-3, 8, "▁"},
	} {
		if got := Block(x.n, x.all); got != x.want {
			t.Errorf("%v of %v: %q, want %q", x.n, x.all, got, x.want)
		}
	}
}
