package frame

import (
	"reflect"
	"testing"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// seeds adds bodies that are good, and their beginnings.
func seeds(f *testing.F, bodies ...[]byte) {
	for _, b := range bodies {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
}

// What is accepted is what JSON would accept, with the same meaning, and is written the same again.
func FuzzSubmissions(f *testing.F) {
	seeds(f, whole(CutSubmissions(nil, someTasks, 1<<20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		subs, err := ParseSubmissions(b)
		if err != nil {
			return
		}
		again, err := ParseSubmissions(whole(CutSubmissions(nil, subs, 1<<20)))
		if err != nil || !reflect.DeepEqual(again, subs) {
			t.Fatalf("read again: %v\n%+v\n%+v", err, subs, again)
		}
		inJSON, err := wire.ParseSubmissions(wire.AppendSubmissions(nil, subs))
		if err != nil || len(inJSON) != len(subs) ||
			len(subs) > 0 && !reflect.DeepEqual(inJSON, subs) {
			t.Fatalf("in JSON: %v\n%+v\n%+v", err, subs, inJSON)
		}
	})
}

func FuzzReports(f *testing.F) {
	seeds(f, whole(CutReports(nil, "w1", someReports, 1<<20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		worker, given, err := ParseReports(b)
		if err != nil {
			return
		}
		reports := make([]task.Report, len(given))
		for i := range given {
			reports[i] = given[i].Report
		}
		_, again, err := ParseReports(whole(CutReports(nil, worker, reports, 1<<20)))
		if err != nil || !reflect.DeepEqual(again, given) {
			t.Fatalf("read again: %v\n%+v\n%+v", err, given, again)
		}
		same, inJSON, err := wire.ParseReports(wire.AppendReports(nil, worker, reports))
		if err != nil || len(inJSON) != len(given) || same != worker {
			t.Fatalf("in JSON: %v\n%+v", err, inJSON)
		}
		for i := range given {
			if inJSON[i].Invalid != given[i].Invalid {
				t.Fatalf("report %d is %q, in JSON %q", i, given[i].Invalid, inJSON[i].Invalid)
			}
			if given[i].Invalid == "" && !reflect.DeepEqual(inJSON[i].Report, given[i].Report) {
				t.Fatalf("report %d is %+v, in JSON %+v", i, given[i].Report, inJSON[i].Report)
			}
		}
	})
}

func FuzzHold(f *testing.F) {
	seeds(f, AppendHold(nil, task.HoldRequest{Worker: "w", Queues: []string{"a", "b"}, Limit: 5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHold(b)
		if err != nil {
			return
		}
		again, err := ParseHold(AppendHold(nil, h))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("read again: %v\n%+v\n%+v", err, h, again)
		}
		inJSON, err := wire.ParseHold(wire.AppendHold(nil, h))
		if err != nil || !reflect.DeepEqual(inJSON, h) {
			t.Fatalf("in JSON: %v\n%+v\n%+v", err, h, inJSON)
		}
	})
}

// Nothing that a server, or what looks like one, answers makes a client panic.
func FuzzAnswers(f *testing.F) {
	seeds(f, whole(CutHandouts(nil, someHandouts, 1<<20)),
		AppendReceipts(nil, []task.Receipt{{ID: first}, {ID: after(first)}}),
		AppendAnswers(nil, []wire.Answer{{Status: task.Recorded}}),
		AppendBeat(nil, task.Beat{Worker: "w"}), AppendRefused(nil, Refused{Status: 503}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if held, err := ParseHandouts(b); err == nil {
			for i := range held.Tasks { // only what was sent whole is written again
				if held.Tasks[i].Fault != "" {
					return
				}
			}
			again, err := ParseHandouts(whole(CutHandouts(nil, held, 1<<20)))
			if err != nil || !reflect.DeepEqual(again, held) {
				t.Fatalf("read again: %v\n%+v\n%+v", err, held, again)
			}
		}
		if receipts, err := ParseReceipts(b); err == nil {
			again, err := ParseReceipts(AppendReceipts(nil, receipts))
			if err != nil || !reflect.DeepEqual(again, receipts) {
				t.Fatalf("read again: %v\n%+v\n%+v", err, receipts, again)
			}
		}
		_, _ = ParseAnswers(b)
		_, _ = ParseBeat(b)
		_, _ = ParseRefused(b)
		Items(Submit, b)
	})
}
