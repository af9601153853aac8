package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// What is read is what was written, to the microsecond, and to write it again gives the same text.
func FuzzSpecOfAScheduleIsReadAsItWasWritten(f *testing.F) {
	f.Add("0 3 * * *", "", []byte(` {"a" : [ 1 ]}`), int64(1_790_000_000_000_001), int64(0), true,
		3, 0.25, int64(time.Minute))
	f.Add("", "other", []byte(nil), int64(0), int64(-1), false, 0, 0.0, int64(0))
	f.Add("\x00\xff", "☃", []byte("\xff\x00"), int64(1), int64(1<<62), false, -1, 1e300, int64(-5))
	f.Fuzz(func(t *testing.T, cron, after string, context []byte, starts, ends int64, paused bool,
		attempts int, share float64, d int64) {
		// others don't pass Check
		cron, after = strings.ToValidUTF8(cron, "?"), strings.ToValidUTF8(after, "?")
		s := limits.DefaultSchedule("s")
		s.Cron = cron
		s.After = after
		s.Zone = after
		s.Calendar = cron
		s.Queue = cron
		s.Stage = after
		s.Context, s.Paused, s.MaxAttempts, s.Jitter.Share = context, paused, attempts, share
		s.Priority = time.Duration(d)
		s.Timeout = time.Duration(-d)
		s.StartWithin = time.Duration(d / 3)
		s.MisfireWindow = time.Duration(d / 2)
		s.Jitter.Max = 1
		s.Notices.Slow = 2
		s.Starts, s.Ends = time.UnixMicro(starts), time.UnixMicro(ends)
		s.Notices.On = []task.Notice{task.NoticeDead}
		s.Notices.Origins = []task.Origin{task.OriginManual, task.OriginAfter}
		text, err := store.Spec(&s)
		if math.IsNaN(share) || math.IsInf(share, 0) {
			if err == nil {
				t.Errorf("a share of %v is written as %s", share, text)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		read := store.Schedule{Schedule: task.Schedule{Name: "s"}}
		if err := read.SetSpec(text); err != nil {
			t.Fatal(err)
		}
		again, err := store.Spec(&read.Schedule)
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("written again: %s, %v; before: %s", again, err, text)
		}
		if !bytes.Equal(read.Context, context) {
			t.Errorf("context: got %q, want %q", read.Context, context)
		}
		if starts != 0 && !read.Starts.Equal(s.Starts) {
			t.Errorf("starts: got %v, want %v", read.Starts, s.Starts)
		}
	})
}

// A spec that a release of before has written is equal to what it means now.
func TestSpecOfBeforeIsEqual(t *testing.T) {
	before := `{"after":"a","queue":"q","overlap":"skip","misfire":"once",` +
		`"misfire_window":86400000000000}`
	s := store.Schedule{Schedule: task.Schedule{Name: "s"}}
	if err := s.SetSpec([]byte(before)); err != nil {
		t.Fatal(err)
	}
	if s.AfterMode != task.AfterAll || s.AfterOn != task.AfterDone || s.AtOnce() != 1 ||
		s.OnDead != task.OnDeadContinue {
		t.Errorf("read as %+v", s.Schedule)
	}
	if text, err := store.Spec(&s.Schedule); err != nil || string(text) != before {
		t.Errorf("written as %s, %v", text, err)
	}
}

func TestCirclesAreNamed(t *testing.T) {
	put := func(name, after string) (p store.SchedulePut) {
		p.Name, p.After = name, after
		return p
	}
	stand := map[string][]string{"c": {"x", "b"}, "d": {"c"}, "x": nil}
	for want, puts := range map[string][]store.SchedulePut{
		"":                                  {put("a", "d,x"), put("e", "a,c,d")},
		"b after d after c after b":         {put("b", "x,d")},
		"a after a":                         {put("a", "a")},
		"b after e after d after c after b": {put("b", "e"), put("e", "x,d")},
	} {
		got := ""
		if circle := store.Circle(puts, stand); circle != nil {
			got = store.CircleText(circle)
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	long := make([]string, 30)
	for i := range long {
		long[i] = string(rune('a' + i))
	}
	if text := store.CircleText(long); !strings.Contains(text, "after 20 others after a") {
		t.Errorf("a long one is %q", text)
	}
}

func TestDaysOfACalendarAreReadAsTheyWereWritten(t *testing.T) {
	for _, c := range []task.Calendar{
		{Name: "c"}, {Name: "c", Skip: []string{"2026-12-25", "2026-12-24"}},
		{Name: "c", Keep: []string{"2026-12-25"}},
	} {
		text, err := store.Days(&c)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := store.ReadDays("c", text); err != nil || !reflect.DeepEqual(*got, c) {
			t.Errorf("got %+v, %v; want %+v", got, err, c)
		}
	}
	for _, read := range []func([]byte) error{
		func(b []byte) error { _, err := store.ReadDays("c", b); return err },
		func(b []byte) error { return new(store.Schedule).SetSpec(b) },
	} {
		if read([]byte(`{"skip":`)) == nil {
			t.Error("a text that was cut off is read")
		}
	}
}

func TestAPutBecomesAVersionOnlyOfWhatWasSeen(t *testing.T) {
	daily := limits.DefaultSchedule("s")
	daily.Cron, daily.Queue = "0 3 * * *", "q"
	other := daily
	other.Context = json.RawMessage("1")
	was := store.Schedule{
		Schedule: daily, Version: 7, Since: 100, First: 300, Next: 500, Created: 50,
	}
	put := store.SchedulePut{Schedule: other, Version: 7, Next: 500, Since: 400, Then: 600}
	christmas := task.Calendar{Skip: []string{"2026-12-25"}}
	for _, c := range []struct {
		what     string
		edit     func(*store.SchedulePut)
		replaced bool
		version  int64 // 0 = refused
	}{
		{"as it was seen", func(*store.SchedulePut) {}, false, 8},
		{"just before it is due", func(p *store.SchedulePut) { p.Since = 499 }, false, 8},
		{"at the very time it is due", func(p *store.SchedulePut) { p.Since = 500 }, false, 0},
		{"from when it began", func(p *store.SchedulePut) { p.Since = 100 }, false, 8},
		{"from before it began", func(p *store.SchedulePut) { p.Since = 99 }, false, 0},
		{"as it was before", func(p *store.SchedulePut) { p.Version = 6 }, false, 0},
		{"as if there were none", func(p *store.SchedulePut) {
			p.Version, p.Next = 0, 0
		}, false, 0},
		{"as it was before it was fired", func(p *store.SchedulePut) { p.Next = 450 }, false, 0},
		{"the same", func(p *store.SchedulePut) { p.Schedule, p.First = daily, 300 }, false, 7},
		{"the same, whatever was seen", func(p *store.SchedulePut) {
			p.Schedule, p.First, p.Version, p.Next, p.Since = daily, 300, 1, 2, 900
		}, false, 7},
		{"the same, the chosen time is over", func(p *store.SchedulePut) {
			p.Schedule = daily
		}, false, 7},
		{"the same, another time is chosen", func(p *store.SchedulePut) {
			p.Schedule, p.First = daily, 450
		}, false, 8},
		{"by the days that its calendar has", func(p *store.SchedulePut) {
			p.Days = &task.Calendar{Skip: []string{"2026-12-25"}}
		}, false, 8},
		{"by other days", func(p *store.SchedulePut) {
			p.Days = &task.Calendar{Keep: []string{"2026-12-25"}}
		}, false, 0},
		{"the same, by other days", func(p *store.SchedulePut) {
			p.Schedule, p.First, p.Days = daily, 300, &task.Calendar{}
		}, false, 7},
		{"the same on other days", func(p *store.SchedulePut) {
			p.Schedule, p.First = daily, 300
		}, true, 8},
	} {
		p := put
		c.edit(&p)
		is, changed, err := p.Become(&was, &christmas, c.replaced, 1000, 2000)
		switch {
		case c.version == 0:
			if !errors.Is(err, store.ErrConflict) {
				t.Errorf("%s: got %+v, %v, want %v", c.what, is, err, store.ErrConflict)
			}
		case err != nil || is.Version != c.version || changed != (c.version > was.Version) ||
			is.Created != was.Created:
			t.Errorf("%s: got version %d changed %v created %d, %v; want version %d", c.what,
				is.Version, changed, is.Created, err, c.version)
		case changed && (is.Since != p.Since || is.Next != p.Then || is.First != p.First):
			t.Errorf("%s: got %+v", c.what, is)
		}
	}
	put.Version = 0
	if is, changed, err := put.Become(nil, nil, false, 1000, 2000); err != nil || !changed ||
		is.Version != 1001 || is.Created != 2000 {
		t.Errorf("a new one: got %+v, changed %v, %v", is, changed, err)
	}
	put.Days = &christmas
	if _, _, err := put.Become(nil, nil, false, 1000, 2000); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a new one, by the days of a calendar that is gone: %v", err)
	}
	put.Version, put.Days = 7, nil
	if _, _, err := put.Become(nil, nil, false, 1000, 2000); !errors.Is(err, store.ErrConflict) {
		t.Errorf("one that is gone: %v", err)
	}
}
