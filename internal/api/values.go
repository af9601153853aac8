package api

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
	"github.com/rotahq/rota/view"
)

// duration is a duration in JSON and in queries: text as Go writes it.
type duration struct{ time.Duration }

func (d duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *duration) UnmarshalText(b []byte) (err error) {
	if d.Duration, err = view.ParseDuration(string(b)); err != nil {
		return fmt.Errorf(`must be a duration like "1m30s"`)
	}
	return nil
}

// Schema describes it in the OpenAPI document.
func (duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Description: "a duration: numbers with units d (24 h), h, m, s, ms, us",
		Examples: []any{"1m30s"},
	}
}

// instant is a time in JSON and in queries: RFC 3339 in UTC with milliseconds; the zero time is
// null.
type instant time.Time

const instantForm = `2006-01-02T15:04:05.000Z`

func (t instant) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return time.Time(t).UTC().AppendFormat(nil, `"`+instantForm+`"`), nil
}

func (t *instant) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339, string(b))
	switch {
	case err != nil:
		return fmt.Errorf("must be a time by RFC 3339, like %q", instantForm)
	case v.Before(limits.MinTime) || !v.Before(limits.MaxTime):
		return fmt.Errorf("must lie in the years 2000 to 2199")
	}
	*t = instant(v.UTC())
	return nil
}

// Schema describes it in the OpenAPI document.
func (instant) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// micros is the store's form of the time, 0 for none.
func (t instant) micros() int64 {
	if time.Time(t).IsZero() {
		return 0
	}
	return time.Time(t).UnixMicro()
}

// instantAt is the inverse of micros.
func instantAt(micros int64) instant {
	if micros == 0 {
		return instant{}
	}
	return instant(time.UnixMicro(micros))
}

// timeAt is the time of an answer; 0 is none.
func timeAt(micros int64) view.Time { return view.Time{Time: time.Time(instantAt(micros))} }

// list is what all lists look like.
type list[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next" doc:"cursor of the next page; empty after the last"`
}

// listed is an answer with a list.
type listed[T any] struct{ Body list[T] }

// How long pages are; the tags below say the same.
const (
	maxPage      = 1000
	standardPage = 100
)

// Paging is in the input of all lists. It is exported for huma.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"at most so many"`
	Cursor string `query:"cursor" doc:"next of the page before"`
}

// shelf tells cursors of different lists apart.
type shelf byte

const (
	taskShelf   shelf = 't' // an id
	lineShelf   shelf = 'l' // a position in a log
	stepShelf   shelf = 'x' // a step
	queueShelf  shelf = 'q' // a name
	workerShelf shelf = 'w' // a name
	eventShelf  shelf = 'e' // a seq
	nodeShelf   shelf = 'm' // a name
	claimShelf  shelf = 'c' // a key

	notifierShelf shelf = 'n' // a name
	hookShelf     shelf = 'h' // a name

	groupShelf shelf = 'g' // a name
	jobShelf   shelf = 'j' // a name
	placeShelf shelf = 'p' // job, replica and worker

	scheduleShelf shelf = 's' // a name
	fireShelf     shelf = 'f' // a due time
	calendarShelf shelf = 'd' // a name
)

// cursors are written in lower case, as ids are.
var cursors = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// cursor makes an opaque text of where a list goes on. The checksum is no secret: it only keeps
// what was typed or cut from being taken for a place.
func cursor(s shelf, place string) string {
	b := append([]byte{0, 0, 0, 0, byte(s)}, place...)
	binary.BigEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return cursors.EncodeToString(b)
}

// parseCursor is the inverse of cursor; empty is the start of the list.
func parseCursor(s shelf, text string) (place string, err error) {
	if text == "" {
		return "", nil
	}
	b, err := cursors.DecodeString(text)
	if err != nil || len(b) < 5 || cursor(s, string(b[5:])) != text {
		// of another list, mistyped, or not as we write it
		return "", wrong("query.cursor", "is not a cursor of this list")
	}
	return string(b[5:]), nil
}

// paged cuts a page out of a list that is sorted by name.
func paged[T any](
	all []T, name func(*T) string, s shelf, p Paging,
) (page []T, next string, err error) {
	after, err := parseCursor(s, p.Cursor)
	if err != nil {
		return nil, "", err
	}
	start := 0
	for after != "" && start < len(all) && name(&all[start]) <= after {
		start++
	}
	page = all[start:min(start+p.Limit, len(all))]
	if n := len(page); n > 0 && start+n < len(all) {
		next = cursor(s, name(&page[n-1]))
	}
	return page, next, nil
}

// fullPage is at how many bytes of specs or contexts a page ends.
const fullPage = 4 << 20

// A page is read in pieces, as nobody knows how large the next items are: as many as would fill it
// if all were as large as any may be, but not so few that there is no end of reading.
const (
	largestItem = max(limits.MaxSpec, limits.MaxScheduleContext)
	leastPiece  = 16
)

// filled reads a page of items by name, from behind after on: at most limit, fewer when they are
// large; more says that others may follow.
func filled[T any](
	after string, limit int, read func(after string, n int) ([]T, error),
	name func(*T) (name string, size int),
) (page []T, more bool, err error) {
	full := 0
	more = true
	for more && len(page) < limit && full < fullPage {
		n := min(max((fullPage-full)/largestItem, leastPiece), limit-len(page))
		piece, err := read(after, n)
		if err != nil {
			return nil, false, err
		}
		for i := range piece {
			last, size := name(&piece[i])
			after, full = last, full+size
		}
		page, more = append(page, piece...), len(piece) == n
	}
	return page, more, nil
}

// parseTaskCursor is the id below which a list of tasks goes on.
func parseTaskCursor(text string) (task.ID, error) {
	place, err := parseCursor(taskShelf, text)
	if err != nil || place == "" {
		return task.ID{}, err
	}
	id, err := task.ParseID(place)
	if err != nil {
		return task.ID{}, wrong("query.cursor", "is not a cursor of this list")
	}
	return id, nil
}

// parseLineCursor is the position from which a log goes on.
func parseLineCursor(location, text string) (int64, error) {
	place, err := parseCursor(lineShelf, text)
	if err == nil && place == "" {
		return 0, nil
	}
	from, bad := strconv.ParseInt(place, 10, 64)
	if err != nil || bad != nil || from < 0 {
		return 0, wrong(location, "is not a cursor of this list")
	}
	return from, nil
}

func lineCursor(from int64) string { return cursor(lineShelf, strconv.FormatInt(from, 10)) }
