package history_test

import (
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/history"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

func Example() {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := noon.UnixMicro()

	// in the transactions that write the facts
	var c history.Changes
	c.Submitted(at, "mail", []store.Task{{N: 0}, {N: 1}})
	c.Settled("mail", at, &store.Step{
		Kind: task.KindDone, Base: store.Final, Worker: "w1", Started: at + 20, Finished: at + 30,
	})
	body := c.Encode()

	// every few seconds
	kept := history.Kept{}.Complete()
	f := history.NewFold(kept, at)
	if err := f.Add(body); err != nil {
		fmt.Println(err)
	}
	rows := map[history.Key][]byte{}
	for k, r := range f.Rows() {
		rows[k] = r.Encode()
	}

	// for whoever asks
	q, err := history.NewQuestion(history.Series{Worker: "w1"}, noon, noon.Add(time.Minute),
		time.Minute, kept, noon)
	if err != nil {
		fmt.Println(err)
	}
	a := history.NewAnswer(q)
	for from, to := q.Rows(); from < to; from++ {
		k := history.Key{Minutes: q.Minutes(), At: from, Series: q.Series}
		if body := rows[k]; body != nil {
			if err := a.Row(from, body); err != nil {
				fmt.Println(err)
			}
		}
	}
	for _, p := range a.Periods() {
		fmt.Println(time.UnixMicro(p.At).UTC().Format("15:04"), p.String())
	}
	// Output: 12:00 started 1, done 1, wait 1: 20µs..20µs, run 1: 10µs..10µs
}
