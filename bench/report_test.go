package main

import (
	"testing"
	"time"
)

func TestSpreadKnowsMedianAndEnds(t *testing.T) {
	for _, c := range []struct {
		runs                    []float64
		median, lowest, highest float64
	}{
		{[]float64{7}, 7, 7, 7},
		{[]float64{9, 1}, 5, 1, 9},
		{[]float64{3, 9, 1}, 3, 1, 9},
		{[]float64{4, 3, 9, 1}, 3.5, 1, 9},
	} {
		var s spread
		for _, v := range c.runs {
			s.add(v)
		}
		if s.Median != c.median || s.Lowest != c.lowest || s.Highest != c.highest {
			t.Errorf("%v: %+v", c.runs, s)
		}
	}
}

func TestTableShowsRatiosPairByPair(t *testing.T) {
	row := result{
		Name: "batch", What: "many against one", Rota: side{Name: "rota"}, Peer: side{
			Name: "river",
		},
	}
	for _, tasks := range []int64{1000, 3000} {
		row.Rota.add(measurement{tasks, time.Second,
			[parts]time.Duration{per(tasks, 1), per(tasks, 2), per(tasks, 4), per(tasks, 3)}})
		row.Peer.add(measurement{tasks / 10, 2 * time.Second,
			[parts]time.Duration{ofDatabase: per(tasks, time.Duration(tasks/1000))}})
	}
	rep := report{
		Machine: "Some CPU", Cores: 2, Go: "go1.26", Rota: "rota dev",
		Peers:   []string{"Asynq v0.26.0 on Redis 7.0", "River v0.51.1 on PostgreSQL 15.18"},
		Seconds: 10, Pairs: 2, Rows: []result{row},
	}
	rep.conclude()
	const want = `Some CPU, 2 cores, go1.26
rota dev
Asynq v0.26.0 on Redis 7.0
River v0.51.1 on PostgreSQL 15.18
2 pairs of runs of 10s, rota and its peer in turns; CPU in µs per task

batch: many against one
            TASKS/S     LOWEST    HIGHEST      CPU  SUBMITTERS   SERVER  DATABASE   WORKER        TASKS
  rota         2000       1000       3000     10.0         1.0      2.0       4.0      3.0         4000
  river         100         50        150     20.0         0.0      0.0      20.0      0.0          400
  ratio       20.0×      20.0×      20.0×   pair by pair: 20.0 20.0
  by CPU       2.0×       1.0×       3.0×   pair by pair: 1.0 3.0
`
	if got := rep.table(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// per is what so many tasks take at so many microseconds each.
func per(tasks int64, micros time.Duration) time.Duration {
	return time.Duration(tasks) * micros * time.Microsecond
}
