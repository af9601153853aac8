package frame

import (
	"encoding/binary"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// AppendBeat appends the body of Beat: the worker, Wait and Version, which have their places in
// path and query over HTTP, and then the JSON.
func AppendBeat(b []byte, x task.Beat) []byte {
	b = appendText(b, x.Worker)
	b = appendSpell(b, x.Wait)
	b = appendText(b, x.Version)
	return wire.AppendBeat(b, x)
}

// ParseBeat reads the body of Beat.
func ParseBeat(b []byte) (task.Beat, error) {
	d := decoder{b: b}
	worker, wait, version := d.str("worker", ""), d.spell("wait"), d.str("version", "")
	if wait < 0 || wait > limits.MaxWait {
		d.failValue("wait", "must be 0s to %v", limits.MaxWait)
	}
	if d.fault != nil {
		return task.Beat{}, d.fault
	}
	x, err := wire.ParseBeat(b[d.i:])
	if err != nil {
		return task.Beat{}, err
	}
	x.Worker, x.Wait, x.Version = worker, wait, version
	return x, nil
}

// ItemCost is how many bytes of memory an element of a list may take beside those of its body.
const ItemCost = 320

// Items says how many elements the list of a body has, by its beginning; never more than there may
// be. One of a kind without a list that counts has none.
func Items(kind Kind, b []byte) int {
	if kind != Submit && kind != Report {
		return 0
	}
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0
	}
	return int(min(n, limits.MaxReports, uint64(len(b))))
}

// Refused is why a request was refused: what HTTP answers it with.
type Refused struct {
	Status     int
	RetryAfter time.Duration // in seconds; 0 = nothing is said of it
	Problem    []byte        // the problem document, in JSON
}

// AppendRefused appends the body of a Refusal.
func AppendRefused(b []byte, r Refused) []byte {
	b = appendNumber(b, r.Status)
	b = appendNumber(b, int(r.RetryAfter/time.Second))
	return append(b, r.Problem...)
}

// ParseRefused reads the body of a Refusal. The problem is a part of b.
func ParseRefused(b []byte) (Refused, error) {
	d := decoder{b: b}
	status, after := d.number("status"), d.number("retry_after")
	if status < 100 || status > 999 {
		d.fail("status", "%d is none", status)
	}
	if d.fault != nil {
		return Refused{}, d.fault
	}
	return Refused{
		Status: int(status), RetryAfter: time.Duration(min(after, maxRetryAfter)) * time.Second,
		Problem: b[d.i:],
	}, nil
}

// maxRetryAfter is the longest pause that is believed, in seconds.
const maxRetryAfter = 24 * 60 * 60
