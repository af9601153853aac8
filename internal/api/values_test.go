package api

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
)

func TestPagesCoverAListWithoutGapOrRepetition(t *testing.T) {
	all := strings.Fields("a b c d e f g")
	for limit := 1; limit <= 8; limit++ {
		var seen []string
		p := Paging{Limit: limit}
		for {
			page, next, err := paged(all, func(s *string) string { return *s }, queueShelf, p)
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, page...)
			if p.Cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(seen, all) {
			t.Errorf("limit %d: %v", limit, seen)
		}
	}
}

// What stood at a cursor may be gone: the list goes on behind it.
func TestCursorOutlivesWhatItNames(t *testing.T) {
	page, _, err := paged([]string{"a", "c"}, func(s *string) string {
		return *s
	}, queueShelf, Paging{Limit: 9, Cursor: cursor(queueShelf, "b")})
	if err != nil || !slices.Equal(page, []string{"c"}) {
		t.Errorf("%v, %v", page, err)
	}
}

func TestMistypedCursorIsNoPlace(t *testing.T) {
	good := cursor(queueShelf, "mail")
	for i := range good {
		for _, bad := range []string{good[:i], good[:i] + "z" + good[i:],
			good[:i] + "y" + good[i+1:], strings.ToUpper(good)} {
			if place, err := parseCursor(queueShelf, bad); bad != good && bad != "" && err == nil {
				t.Errorf("%q, from %q, became %q", bad, good, place)
			}
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(cursor(taskShelf, idOf(1).String()), "b")
	f.Add(lineCursor(7), "")
	f.Add("", "0")
	f.Fuzz(func(t *testing.T, text, place string) {
		for _, s := range []shelf{taskShelf, lineShelf, queueShelf, workerShelf} {
			got, err := parseCursor(s, text)
			if err == nil && text != "" && cursor(s, got) != text {
				t.Errorf("%q is accepted as a second form of %q", text, got)
			}
			made := cursor(s, place)
			if got, err := parseCursor(s, made); err != nil || got != place {
				t.Errorf("%q came back as %q, %v", place, got, err)
			}
			if _, err := parseCursor(s+1, made); err == nil {
				t.Errorf("a cursor of list %c is taken for one of another", s)
			}
		}
		if id, err := parseTaskCursor(text); err == nil && text != "" &&
			cursor(taskShelf, id.String()) != text {
			t.Errorf("%q became task %v", text, id)
		}
		if from, err := parseLineCursor("query.cursor", text); err == nil && from < 0 {
			t.Errorf("%q became line %d", text, from)
		}
	})
}

func TestInstantsKeepMillisecondsInUTC(t *testing.T) {
	for in, want := range map[string]string{
		"2026-10-01T14:00:00.123999+02:00": `"2026-10-01T12:00:00.123Z"`,
		"2000-01-01T00:00:00Z":             `"2000-01-01T00:00:00.000Z"`,
		"1999-12-31T23:59:59Z":             "",
		"2200-01-01T00:00:00Z":             "",
		"2026-10-01":                       "",
		"":                                 "",
	} {
		var i instant
		err := i.UnmarshalText([]byte(in))
		got, _ := i.MarshalJSON()
		if want == "" && err == nil || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	if got, _ := (instant{}).MarshalJSON(); string(got) != "null" {
		t.Errorf("no time: %s", got)
	}
	if at := time.Now(); instantAt(at.UnixMicro()).micros() != at.UnixMicro() ||
		(instant{}).micros() != 0 || instantAt(0) != (instant{}) {
		t.Error("micros do not come back")
	}
}

// 0s is no way to say nothing.
func TestKeepOf0sIsNotTheDefault(t *testing.T) {
	for said, want := range map[*duration]time.Duration{
		nil: 0, {time.Hour}: time.Hour, {}: -1,
	} {
		if got := keepOf(said); got != want {
			t.Errorf("%v: %v, want %v", said, got, want)
		}
	}
}

// A page has no more bytes than are set aside for it, wherever in the list the large items begin.
func TestPagesStayWithinTheirRoomWhereverLargeItemsBegin(t *testing.T) {
	const largest = max(limits.MaxSpec, limits.MaxScheduleContext)
	for _, small := range []int{0, 10, 64, 300, 700} {
		bytes := 0
		sizeOf := func(i *int) (string, int) {
			size := 10
			if *i >= small {
				size = largest
			}
			return strconv.Itoa(*i), size
		}
		read := func(after string, n int) (list []int, err error) {
			at := 0
			if after != "" {
				if at, err = strconv.Atoi(after); err != nil {
					return nil, err
				}
				at++
			}
			for i := range n {
				list = append(list, at+i)
				_, size := sizeOf(&list[i])
				bytes += size
			}
			return list, nil
		}
		page, more, err := filled("", maxPage, read, sizeOf)
		if err != nil || !more || len(page) < min(small+16, maxPage) {
			t.Errorf("%d small ones: %d items, more %v, %v", small, len(page), more, err)
		}
		if bytes > fullPage+16*largest {
			t.Errorf("%d small ones: the page has %d bytes, of %d", small, bytes, fullPage)
		}
	}
}
