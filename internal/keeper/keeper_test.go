package keeper

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rotahq/rota/task"
)

const second = int64(1e6)

func id(n int) task.ID { return task.ID{Batch: 1, N: int32(n)} }

func out(n, seq int) Handout { return Handout{ID: id(n), Seq: int32(seq)} }

// book is a keeper, and what it said of the tasks that asked it.
type book struct {
	*Keeper
	said []string
}

func begun(l Limits, now int64) *book { return &book{Keeper: New(l, now)} }

// asks asks for tasks of a key, one after the other, and begins those that may.
func (b *book) asks(now int64, name string, tasks ...int) {
	for _, n := range tasks {
		r := b.May(id(n), name, now)
		text := string(r.Why)
		switch {
		case r.OK():
			text = "begins"
			b.Begin(out(n, 0), name, now, now+second)
			b.Stands(out(n, 0), now)
		case r.Task != (task.ID{}):
			text += fmt.Sprintf(" of %d", r.Task.N)
		case r.Until != 0:
			text += fmt.Sprintf(" for %v", time.Duration(r.Until-now)*time.Microsecond)
		}
		b.said = append(b.said, fmt.Sprint(name, n, " ", text))
	}
}

func TestLimitsRefuseAndSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		play   func(*book)
		want   string
	}{
		"none": {Limits{}, func(b *book) { b.asks(0, "a", 1, 2, 3) },
			"a1 begins, a2 begins, a3 begins"},
		"so many": {Limits{Running: 2}, func(b *book) {
			b.asks(0, "a", 1, 2, 3)
			b.Ended(out(1, 0), true, 0)
			b.asks(0, "b", 4, 5)
		}, "a1 begins, a2 begins, a3 limit, b4 begins, b5 limit"},
		"so many of a key": {Limits{Key: KeyLimits{Running: 2}}, func(b *book) {
			b.asks(0, "a", 1, 2, 3)
			b.asks(0, "b", 4)
		}, "a1 begins, a2 begins, a3 key_limit, b4 begins"},
		"so fast": {Limits{Rate: Rate{Count: 2, Per: time.Second}}, func(b *book) {
			b.asks(0, "a", 1)
			b.asks(second/2, "a", 1, 2)
			b.asks(second*9, "a", 3, 4, 5)
		}, "a1 rate for 500ms, a1 begins, a2 rate for 500ms, a3 begins, a4 begins, a5 rate for 500ms"},
		"so fast with a burst": {Limits{Rate: Rate{Count: 1, Per: time.Second, Burst: 3}},
			func(b *book) { b.asks(second*60, "a", 1, 2, 3, 4) },
			"a1 begins, a2 begins, a3 begins, a4 rate for 1s"},
		"a key so fast": {Limits{Key: KeyLimits{Rate: Rate{Count: 1, Per: time.Second}}},
			func(b *book) {
				b.asks(second, "a", 1, 2)
				b.asks(second, "b", 3)
				b.asks(second*3/2, "a", 2)
			}, "a1 begins, a2 key_rate for 1s, b3 begins, a2 key_rate for 500ms"},
		"in order": {Limits{Key: KeyLimits{Running: 1}}, func(b *book) {
			b.asks(0, "a", 1, 2)
			b.Ended(out(1, 0), false, 0) // it is tried again later, and keeps its turn
			b.asks(0, "a", 2)
			b.Begin(out(1, 1), "a", 0, second)
			b.Ended(out(1, 1), true, 0)
			b.asks(0, "a", 2)
		}, "a1 begins, a2 key_limit of 1, a2 key_limit of 1, a2 begins"},
		"paused": {Limits{}, func(b *book) {
			b.Pause("a", 30*second)
			b.asks(0, "a", 1)
			b.asks(0, "b", 2)
			b.asks(30*second, "a", 1)
		}, "a1 key_paused for 30s, b2 begins, a1 begins"},
		"read": {Limits{Running: 3, Key: KeyLimits{Running: 1}}, func(b *book) {
			b.Read([]Row{{out(1, 0), "a"}, {out(1, 0), "a"}}, []Turn{{"a", id(1)}, {"b", id(2)}}, 0)
			b.asks(0, "a", 3)
			b.asks(0, "b", 4, 2)
			b.asks(0, "c", 5, 6)
		}, "a3 key_limit of 1, b4 key_limit of 2, b2 begins, c5 begins, c6 limit"},
		"refused by the store": {Limits{Running: 1, Key: KeyLimits{Running: 1}}, func(b *book) {
			b.Begin(out(1, 0), "a", 0, second)
			b.asks(0, "a", 2)
			b.Gone(out(1, 0))
			b.asks(0, "a", 2)
		}, "a2 limit, a2 begins"},
		"a retry that the store refuses": {Limits{Key: KeyLimits{Running: 1}}, func(b *book) {
			b.Read(nil, []Turn{{"a", id(1)}}, 0)
			b.Begin(out(1, 1), "a", 0, second)
			b.Gone(out(1, 1))
			b.asks(0, "a", 2)
		}, "a2 key_limit of 1"},
		"a task that runs beside the one that has the turn": {Limits{Key: KeyLimits{Running: 1}},
			func(b *book) {
				b.Read([]Row{{out(1, 0), "a"}}, []Turn{{"a", id(2)}}, 0)
				b.Ended(out(1, 0), true, 0)
				b.asks(0, "a", 3, 2)
			}, "a3 key_limit of 2, a2 begins"},
		"another rate of keys": {Limits{Key: KeyLimits{Rate: Rate{Count: 1, Per: time.Second}}},
			func(b *book) {
				b.asks(9*second, "a", 1)
				b.Change(Limits{Key: KeyLimits{Rate: Rate{Count: 2, Per: time.Second}}}, 20*second)
				b.asks(20*second, "a", 2)
				b.asks(20*second, "b", 3)
				b.asks(21*second, "a", 4, 5, 6)
			}, "a1 begins, a2 key_rate for 500ms, b3 key_rate for 500ms, a4 begins, a5 begins, " +
				"a6 key_rate for 500ms"},
		"changed": {Limits{Running: 1}, func(b *book) {
			b.asks(0, "a", 1, 2)
			b.Change(Limits{Rate: Rate{Count: 1, Per: time.Second}}, second)
			b.asks(second, "a", 2)
			b.asks(2*second, "a", 2)
		}, "a1 begins, a2 limit, a2 rate for 1s, a2 begins"},
	} {
		b := begun(c.limits, 0)
		c.play(b)
		if got := strings.Join(b.said, ", "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// What a look has seen, or not, by what it was bound to see.
func TestALookEndsOnlyWhatItWasBoundToSee(t *testing.T) {
	row, turn := []Row{{out(1, 0), "a"}}, []Turn{{"a", id(1)}}
	for name, c := range map[string]struct {
		look Look
		told bool // at 50 it heard that the row stands
		want string
	}{
		"the row may still come":              {Look{Asked: 60, At: 90}, false, "counts"},
		"the row may come at the last moment": {Look{Asked: 60, At: 100}, false, "counts"},
		"it can't come any more":              {Look{Asked: 60, At: 101}, false, "ended"},
		"it was asked for before":             {Look{Asked: 40, At: 200}, true, "counts"},
		"it was asked for later":              {Look{Asked: 50, At: 90}, true, "ended"},
		"it sees it":                          {Look{60, 90, row, turn}, true, "counts"},
		"it sees it, and only so it is known": {Look{60, 200, row, turn}, false, "counts"},
		"the turn stands, the hand-out does not": {Look{60, 90, nil, turn}, true,
			"ended, has its turn"},
		"another one has the turn": {Look{60, 90, nil, []Turn{{"a", id(2)}}}, true, "ended"},
	} {
		k := New(Limits{Key: KeyLimits{Running: 1}}, 0)
		k.Begin(out(1, 0), "a", 10, 100)
		if c.told {
			k.Stands(out(1, 0), 50)
		}
		k.Looked(c.look, 210)
		got := map[bool]string{true: "counts", false: "ended"}[k.Running() == 1]
		if r := k.May(id(2), "a", 210); !r.OK() && k.Running() == 0 {
			got += ", has its turn"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A look that was asked for before a row came says nothing of its turn, also when who runs the
// hand-out was heard of first.
func TestATurnStaysThoughALateLookHasNotSeenIt(t *testing.T) {
	k := New(Limits{Key: KeyLimits{Running: 1}}, 0)
	k.Begin(out(1, 0), "a", 10, 100)
	k.Ended(out(1, 0), false, 50)
	k.Looked(Look{Asked: 40, At: 200}, 210)
	if r := k.May(id(2), "a", 210); r.Task != id(1) {
		t.Errorf("another one may begin: %+v", r)
	}
	k.Looked(Look{Asked: 210, At: 220}, 230)
	if r := k.May(id(2), "a", 230); !r.OK() {
		t.Errorf("after a look that was bound to see it: %+v", r)
	}
}

// A key that was never seen is as full as the time since the take-over has made it.
func TestBucketsBeginEmpty(t *testing.T) {
	rate := Rate{Count: 1, Per: 2 * time.Second, Burst: 5}
	b := begun(Limits{Key: KeyLimits{Rate: rate}}, 50*second)
	b.asks(51*second, "a", 1)
	b.asks(52*second, "b", 2, 3)
	if got := strings.Join(b.said, ", "); got != "a1 key_rate for 1s, b2 begins, b3 key_rate for 2s" {
		t.Error(got)
	}
}

// Whenever tasks of any keys ask, the rates of the queue and of each key hold in every window, and
// who was told to come later may come then, if nobody else came before.
func TestRatesHoldInEveryWindow(t *testing.T) {
	for seed := range uint64(200) {
		luck := rand.New(rand.NewPCG(seed, 1))
		rate := func() Rate {
			return Rate{
				Count: 1 + luck.Int64N(5), Per: time.Duration(1+luck.IntN(1000)) * time.Microsecond,
				Burst: luck.Int64N(8),
			}
		}
		l := Limits{Rate: rate(), Key: KeyLimits{Rate: rate()}}
		k, now := New(l, 0), int64(0)
		all, of := []int64{}, map[string][]int64{}
		for n := range 500 {
			if luck.IntN(20) == 0 {
				now += luck.Int64N(5000)
			}
			name := fmt.Sprint(luck.IntN(3))
			r := k.May(id(n), name, now)
			if !r.OK() {
				if r.Until <= now {
					t.Fatalf("seed %d: refused at %d until %d", seed, now, r.Until)
				}
				now = r.Until - luck.Int64N(2)*luck.Int64N(r.Until-now+1)
				r2 := k.May(id(n), name, now)
				if now == r.Until && r2.Why == r.Why {
					t.Fatalf("seed %d: told to come at %d: %v", seed, now, r2)
				}
				if !r2.OK() {
					continue
				}
			}
			k.Begin(out(n, 0), name, now, now)
			if k.bucket.level < 0 || k.keys[name].bucket.level < 0 {
				t.Fatalf("seed %d: a bucket has less than nothing at %d", seed, now)
			}
			all = append(all, now)
			of[name] = append(of[name], now)
		}
		holds(t, seed, l.Rate, all)
		for _, times := range of {
			holds(t, seed, l.Key.Rate, times)
		}
	}
}

func holds(t *testing.T, seed uint64, r Rate, times []int64) {
	t.Helper()
	burst := r.Burst
	if burst == 0 {
		burst = r.Count
	}
	for i, from := range times {
		for j := i; j < len(times); j++ {
			window := times[j] - from
			if most := burst + window*r.Count/r.Per.Microseconds() + 1; int64(j-i+1) > most {
				t.Fatalf("seed %d: %d from %d to %d, at most %d: %+v", seed, j-i+1, from, times[j],
					most, r)
			}
		}
	}
}

func TestLargestRatesDoNotOverflow(t *testing.T) {
	r := Rate{Count: 1, Per: MaxPer, Burst: MaxCount}
	k := New(Limits{Rate: r}, 0)
	if n := k.Room(1<<30, 1<<62); n != MaxCount {
		t.Errorf("%d after a long rest, want %d", n, MaxCount)
	}
	r = Rate{Count: MaxCount, Per: MaxPer}
	k = New(Limits{Rate: r}, 0)
	if n := k.Room(1<<30, 1<<62); n != MaxCount {
		t.Errorf("%d of many after a long rest, want %d", n, MaxCount)
	}
	r = Rate{Count: MaxCount, Per: time.Microsecond}
	k = New(Limits{Rate: r}, 0)
	if n := k.Room(1<<30, 1); n != MaxCount {
		t.Errorf("%d after a microsecond, want %d", n, MaxCount)
	}
}

// A key costs memory while something of it counts, or its bucket fills.
func TestKeysThatRestAreForgotten(t *testing.T) {
	for name, l := range map[string]KeyLimits{
		"running": {Running: 2}, "in order": {Running: 1},
		"rate": {Rate: Rate{Count: 1, Per: time.Second, Burst: 3}},
	} {
		k := New(Limits{Key: l}, 0)
		now := 100 * second
		for n := range 20_000 {
			now += second / 1000
			key := fmt.Sprint(n)
			if r := k.May(id(n), key, now); !r.OK() {
				t.Fatalf("%s: %v", name, r)
			}
			k.Begin(out(n, 0), key, now, now)
			k.Stands(out(n, 0), now)
			k.Ended(out(n, 0), true, now)
		}
		if len(k.keys) > 4000 {
			t.Errorf("%s: %d keys are known, 1000 were used while a bucket fills", name, len(k.keys))
		}
		k.Pause("0", now+second)
		for range 30 {
			now += second
			k.Looked(Look{Asked: now, At: now}, now)
		}
		if len(k.keys)+len(k.turns)+len(k.later)+len(k.out) > 0 {
			t.Errorf("%s: %d keys, %d turns, %d to look at later", name, len(k.keys), len(k.turns),
				len(k.later))
		}
	}
}

// Nobody pays for the keys that others have.
func BenchmarkHandOut(b *testing.B) {
	for _, keys := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprint("customer-", i)
			}
			k := New(Limits{
				Running: 1000, Rate: Rate{Count: MaxCount, Per: time.Second},
				Key: KeyLimits{Running: 2, Rate: Rate{Count: MaxCount, Per: time.Second}},
			}, 0)
			now := 1000 * second
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now += 2
				h, name := Handout{ID: task.ID{Batch: 1, N: int32(i)}}, names[i%keys]
				if !k.May(h.ID, name, now).OK() {
					b.Fatal("refused")
				}
				k.Begin(h, name, now, now+second)
				k.Stands(h, now)
				k.Ended(h, true, now)
			}
		})
	}
}
