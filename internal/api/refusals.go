package api

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/bucket"
)

// Limits of what is logged of calls that are refused for who makes them. All of them are counted.
const (
	refusedEvery = 10 * time.Second // one line about one address and reason
	refusedBurst = 20               // lines at once
	refusedRate  = 1                // a second
	maxRefusers  = 1_000            // addresses and reasons that are known
)

// refusals logs calls that are refused for who makes them.
type refusals struct {
	log *slog.Logger

	mu   sync.Mutex
	all  bucket.Bucket
	by   map[refusalKey]*refusalRow
	more int // refused, and in no line
}

type refusalKey struct {
	status int
	from   string
}

type refusalRow struct {
	next  time.Time // no line before
	calls int       // since the last one
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{
		log: log, all: bucket.Bucket{Rate: refusedRate, Burst: refusedBurst, Left: refusedBurst},
		by: map[refusalKey]*refusalRow{},
	}
}

// refusalReasons are the statuses of such refusals.
var refusalReasons = map[int]string{
	http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusTooManyRequests: "throttled",
}

// refused counts and logs a call that was refused.
func (a *API) refused(c *call, status int, pattern string) {
	reason := refusalReasons[status]
	if reason == "" {
		return
	}
	a.metrics.refused.WithLabelValues(reason).Inc()
	a.refusalLog.note(status, c.from, time.Now(), "reason", reason, "from", c.from, "by",
		c.who.Name, "role", string(c.who.Role), "call", pattern)
}

func (f *refusals) note(status int, from string, now time.Time, what ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := refusalKey{status, from}
	row := f.by[key]
	if row == nil {
		if len(f.by) >= maxRefusers {
			for key, row := range f.by {
				if !now.Before(row.next) {
					f.more += row.calls
					delete(f.by, key)
				}
			}
		}
		if len(f.by) >= maxRefusers {
			f.more++
			return
		}
		row = &refusalRow{}
		f.by[key] = row
	}
	row.calls++
	if now.Before(row.next) || f.all.Look(now) < 1 {
		return
	}
	f.all.Left--
	f.log.Warn("calls refused", append(what, "calls", row.calls, "others", f.more)...)
	row.next, row.calls, f.more = now.Add(refusedEvery), 0, 0
}
