package history

import (
	"errors"
	"testing"
	"time"
)

func TestQuestionsThatMakeNoSenseAreRefused(t *testing.T) {
	kept := Kept{}.Complete()
	for _, x := range []struct {
		series   Series
		from, to time.Duration // before now
		step     time.Duration
		want     error
		periods  int
	}{
		{Series{}, time.Hour, 0, time.Minute, nil, 60},
		{Series{Queue: "q", Stage: "s"}, 90 * time.Second, 0, time.Minute, nil, 2},
		{Series{}, 24 * time.Hour, 0, time.Minute, nil, 1440},
		{Series{}, 26 * time.Hour, 0, time.Minute, ErrPeriods, 0},
		{Series{}, 25 * time.Hour, 0, 2 * time.Minute, ErrMinutes, 0},
		{Series{}, 90 * 24 * time.Hour, 0, 2 * time.Hour, nil, 1080},
		{Series{}, 91 * 24 * time.Hour, 0, 2 * time.Hour, ErrKept, 0},
		{Series{}, 91 * 24 * time.Hour, 0, 24 * time.Hour, nil, 92},
		{Series{}, time.Minute, time.Minute, time.Minute, ErrRange, 0},
		{Series{}, time.Hour, 0, time.Second, ErrStep, 0},
		{Series{}, time.Hour, 0, 0, ErrStep, 0},
		{Series{}, time.Hour, 0, -time.Minute, ErrStep, 0},
		{Series{Stage: "s"}, time.Hour, 0, time.Minute, ErrSeries, 0},
		{Series{Queue: "q", Worker: "w"}, time.Hour, 0, time.Minute, ErrSeries, 0},
	} {
		q, err := NewQuestion(x.series, noon.Add(-x.from), noon.Add(-x.to), x.step, kept, noon)
		if !errors.Is(err, x.want) || err == nil && len(NewAnswer(q).Periods()) != x.periods {
			t.Errorf("%+v: %v, %d periods", x, err, len(NewAnswer(q).Periods()))
		}
	}
}

// However far into what is to come a question goes, few rows are looked for.
func TestRowsToComeAreNotLookedFor(t *testing.T) {
	q, err := NewQuestion(Series{}, noon.Add(-time.Hour), noon.Add(1400*31*24*time.Hour),
		31*24*time.Hour, Kept{}.Complete(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if from, to := q.Rows(); to-from > 31*24+3 || len(NewAnswer(q).Periods()) < 1400 {
		t.Errorf("rows %d to %d, %d periods", from, to, len(NewAnswer(q).Periods()))
	}
}
