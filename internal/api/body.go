package api

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/rotahq/rota/internal/frame"
	"github.com/rotahq/rota/internal/wire"
)

// firstRead is how much of a body is believed before its bytes arrive. Whoever announces 32 MiB and
// sends nothing takes this much of the budget, not more.
const firstRead = 64 << 10

const tooManyBodies = "too many large requests are under way"

// body reads the whole request body into memory of its own: what is parsed from it may point into
// it. Calls of workers pass spare 0; the others leave something of the budget for them. The budget
// is given back at the end of the call, or by letGo.
func (a *API) body(w *answer, r *http.Request, spare int64) ([]byte, error) {
	return readBody(r, a.conf.MaxBody, firstRead, func(n int64) bool {
		if !a.bodies.take(n, spare) {
			return false
		}
		w.body += n
		return true
	})
}

// parsed takes what the elements of a body's lists need besides their bytes, once they are read: a
// short one of three bytes becomes a structure of some hundred, and the call may wait for the store
// with it.
func (a *API) parsed(c *call, elements int, spare int64) error {
	n := int64(elements) * frame.ItemCost
	if n > 0 && !a.bodies.take(n, spare) {
		return busy(tooManyBodies)
	}
	c.body += n
	return nil
}

// childrenIn is how many children reports have.
func childrenIn(given []wire.Report) (n int) {
	for i := range given {
		n += len(given[i].Spawn)
	}
	return n
}

// readBody reads a request body of at most limit bytes, for which it takes what it needs of a
// budget. Of the body so much is believed before its bytes arrive as first says.
func readBody(
	r *http.Request, limit, first int64, take func(n int64) bool,
) ([]byte, error) {
	size := r.ContentLength
	if size > limit {
		return nil, tooLarge(limit)
	}
	if size < 0 {
		size = limit + 1
	}
	var b []byte
	for done := false; !done; {
		if len(b) == cap(b) {
			room := min(max(first, 4*int64(cap(b))), size)
			if !take(room - int64(cap(b))) {
				return nil, busy(tooManyBodies)
			}
			b = append(make([]byte, 0, room), b...)
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, tooLarge(limit)
		case err == io.EOF, int64(len(b)) == r.ContentLength:
			done = true
		case err != nil:
			return nil, unreadable(err)
		}
	}
	return b, nil
}

// strict reads the body of a call that is not hot. Its query may have what is known.
func (a *API) strict(w *answer, r *http.Request, v any, known ...string) error {
	if _, err := knownQuery(r, known...); err != nil {
		return err
	}
	body, err := a.body(w, r, a.conf.MaxBodies/4)
	if err != nil {
		return err
	}
	if err := wire.Strict(body, v); err != nil {
		return err
	}
	if n, has := v.(bearer); has {
		n.canonical()
	}
	return nil
}

func tooLarge(limit int64) *problem {
	p := refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", limit)
	p.Errors = []fault{{Location: "body", Message: p.Detail}}
	return p
}

func unreadable(err error) *problem {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, "the body did not come in time")
	}
	return refuse(http.StatusBadRequest, "the body ended before its time")
}
