package frame_test

import (
	"fmt"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/task"
)

// A request with two tasks, as it stands on a stream. The queue of the second one is that of the
// first, so it is not said again.
func Example() {
	body, _ := frame.CutSubmissions(nil, []task.Submission{
		{Queue: "mail", Context: []byte(`1`)}, {Queue: "mail", Context: []byte(`2`)},
	}, frame.MaxPiece)
	b := frame.AppendHeader(nil, frame.Header{Size: len(body), ID: 7, Kind: frame.Submit})
	fmt.Printf("% x\n% x\n", b, body)
	// Output:
	// 00 00 00 0c 00 00 00 07 01
	// 02 05 04 6d 61 69 6c 01 31 04 01 32
}
