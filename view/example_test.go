package view_test

import (
	"fmt"

	"github.com/rotahq/rota/view"
)

func ExampleParseDuration() {
	for _, text := range []string{"90s", "2d", "1d12h", "soon"} {
		d, err := view.ParseDuration(text)
		fmt.Println(d, err != nil)
	}
	// Output:
	// 1m30s false
	// 48h0m0s false
	// 36h0m0s false
	// 0s true
}
