package firing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // machines without zones of their own fire by the same ones

	"github.com/rotahq/rota/cron"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// timetable says when a schedule is due. It never changes.
type timetable struct {
	cron   *cron.Schedule // nil: it follows another schedule
	zone   *time.Location
	first  int64 // see store.Schedule.First
	starts int64
	ends   int64
}

// next is the first due time after a time that is not before the schedule's Since; store.Never.
func (t *timetable) next(after int64) int64 {
	if t.first > after {
		return t.first
	}
	if t.cron == nil {
		return store.Never
	}
	at := t.cron.Next(time.UnixMicro(max(after, t.starts-1)))
	if at.IsZero() || at.UnixMicro() > t.ends {
		return store.Never
	}
	return at.UnixMicro()
}

// always is the timetable without the due time that somebody chose: it holds for any time, also
// before the schedule was what it is.
func (t *timetable) always() *timetable {
	all := *t
	all.first = 0
	return &all
}

// show writes a due time as people who wrote the schedule would.
func (t *timetable) show(at int64) string {
	return time.UnixMicro(at).In(t.zone).Format(time.RFC3339)
}

// jitter is how long after its due time a task is due: the same for the same due time always, and
// spread evenly over all.
func (t *timetable) jitter(s *task.Schedule, at int64) int64 {
	most := s.Jitter.Max.Microseconds()
	if s.Jitter.Share > 0 {
		next := t.next(at)
		if next == store.Never {
			return 0
		}
		most = int64(s.Jitter.Share * float64(next-at))
	}
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(s.Name))
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(at)))
	part, _ := bits.Mul64(h.Sum64(), uint64(most))
	return int64(part)
}

// timetables makes them, and remembers what was expensive: expressions and zones.
type timetables struct {
	mu        sync.Mutex
	crons     map[cronKey]*cron.Schedule
	zones     map[string]*time.Location
	calendars map[string]*calendar
}

// calendar is one that was read, and what it was read from.
type calendar struct {
	from *task.Calendar
	days *cron.Calendar
}

// cronKey is what an expression's meaning depends on.
type cronKey struct {
	cron, zone string
	name       string // if it has an H, or days
	version    int64  // if it has days: each version has one set
}

// How many are remembered: expressions of a few hundred bytes, calendars of hundreds of days
// mostly.
const (
	maxCrons     = 20_000
	maxCalendars = 100
)

func newTimetables() *timetables {
	return &timetables{
		crons: map[cronKey]*cron.Schedule{}, zones: map[string]*time.Location{},
		calendars: map[string]*calendar{},
	}
}

// of makes the timetable of a schedule. Errors: errZone, errDays or *cron.SyntaxError.
func (c *timetables) of(s *store.Schedule) (*timetable, error) {
	t := &timetable{first: s.First, ends: store.Never}
	if !s.Starts.IsZero() {
		t.starts = s.Starts.UnixMicro()
	}
	if !s.Ends.IsZero() {
		t.ends = s.Ends.UnixMicro()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if t.zone, err = c.zone(s.Zone); err != nil || s.Cron == "" {
		return t, err
	}
	t.cron, err = c.parse(s, t.zone)
	return t, err
}

// Faults of a schedule besides those of its expression.
var (
	errZone = errors.New("is no time zone: write it as in Europe/Berlin")
	errDays = errors.New("calendar")
)

// zone is called with the lock held.
func (c *timetables) zone(name string) (*time.Location, error) {
	if zone := c.zones[name]; zone != nil {
		return zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%.80q %w", name, errZone)
	}
	c.zones[name] = zone
	return zone, nil
}

// parse is called with the lock held.
func (c *timetables) parse(s *store.Schedule, zone *time.Location) (*cron.Schedule, error) {
	key := cronKey{cron: s.Cron, zone: s.Zone}
	if s.Days != nil || strings.ContainsAny(s.Cron, "Hh") {
		key.name = s.Name
	}
	if s.Days != nil {
		key.version = s.Version
	}
	known := s.Days == nil || s.Version != 0 // what is not stored yet has no version
	if parsed := c.crons[key]; parsed != nil && known {
		return parsed, nil
	}
	parsed, err := cron.Parse(s.Cron, cron.Options{Zone: zone, Name: s.Name})
	if err != nil {
		return nil, err
	}
	if s.Days != nil {
		days, err := c.days(s.Days)
		if err != nil {
			return nil, err
		}
		parsed = parsed.On(days)
	}
	if len(c.crons) >= maxCrons {
		clear(c.crons)
	}
	if known {
		c.crons[key] = parsed
	}
	return parsed, nil
}

// days reads a calendar, once for all schedules that have it as it is. It is called with the lock
// held.
func (c *timetables) days(from *task.Calendar) (days *cron.Calendar, err error) {
	if known := c.calendars[from.Name]; known != nil && slices.Equal(known.from.Skip, from.Skip) &&
		slices.Equal(known.from.Keep, from.Keep) {
		return known.days, nil
	}
	if len(from.Keep) > 0 {
		days, err = cron.Keep(from.Keep...)
	} else {
		days, err = cron.Skip(from.Skip...)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDays, err)
	}
	if len(c.calendars) >= maxCalendars {
		clear(c.calendars)
	}
	c.calendars[from.Name] = &calendar{from, days}
	return days, nil
}

// addFault notes what is wrong with a schedule that has no timetable, below location.
func addFault(e *task.InvalidError, location string, err error) {
	field := ".cron"
	switch {
	case errors.Is(err, errZone):
		field = ".zone"
	case errors.Is(err, errDays):
		field = ".calendar"
	}
	e.Add(location+field, "%v", err)
}
