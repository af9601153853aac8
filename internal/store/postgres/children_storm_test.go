//go:build unix

package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/task"
)

// families is a crowd that does everything at once to parents and their children.
type families struct {
	*client
	lanes                []*client
	luck                 *rand.Rand
	woken, fallen, added int
}

// Many spawn, add, end, cancel and replay children and their parents on several connections, and
// look. Each parent that waits is woken once, by counts that were right; who fell takes along what
// had not begun; and in the end the counts are what the steps say.
func TestFamiliesAtOnceAreCountedAndWokenOnce(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	dsn := contested.database(t)
	s := &families{luck: rand.New(rand.NewPCG(5, 6))}
	s.client = join(t, open(t, Config{DSN: dsn, NoNotify: true}))
	for lane := range 4 {
		s.lanes = append(s.lanes, &client{
			TB: t, Store: open(t, Config{DSN: dsn, NoNotify: true, marksFrom: 1 + 3*(lane%2)}),
			holder: s.holder,
		})
	}
	for i := range rounds {
		s.round(i)
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
	t.Logf("%d parents were woken, %d children fell, %d batches were added", s.woken, s.fallen,
		s.added)
	if n := s.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
		t.Errorf("%d transactions waited for each other in a circle", n)
	}
	if min(s.woken, s.fallen, s.added) < rounds/8 {
		t.Error("it was no contest")
	}
}

// parents is how many there are in a round.
const parents = 3

// round lets parents wait for their children, and both end, at once.
func (s *families) round(i int) {
	tops := s.submit(s.batch(parents, parents, true))[0]
	var deeds []func(c *client)
	add := func(do func(c *client)) { deeds = append(deeds, do) }
	var mu sync.Mutex
	for n := range int32(parents) {
		sp := tops
		sp.Lo, sp.Hi = n, n
		if s.luck.IntN(2) == 0 {
			s.runs(&sp, n, 0)
		}
		first, _ := s.under(&sp, 0, s.brood(0, 5, true))
		children := first[0]
		id := task.ID{Batch: sp.Batch, N: n}
		keyed := s.keyed(i, 3)
		r := awaits(&sp, 0, s.luck.IntN(3) == 0, keyed)
		switch s.luck.IntN(4) {
		case 0:
			r = report(&sp, n, 0, 1, task.Fail(errors.New("no")))
		case 1:
			r.Spawn = nil
		}
		add(func(c *client) {
			c.settlesAny(r)
		})
		for range 2 {
			b := s.keyed(i, 1+s.luck.IntN(2))
			add(func(c *client) {
				if _, err := c.under(&sp, 0, b); err == nil {
					mu.Lock()
					s.added++
					mu.Unlock()
				} else if !errors.Is(err, store.ErrStale) {
					c.Error(err)
				}
			})
		}
		ends := []task.Outcome{task.Finish(nil), task.Fail(errors.New("no"))}
		var together []store.Report
		for k := range int32(5) {
			one := report(&children, k, 0, 1, ends[s.luck.IntN(8)/7])
			if k < 3 {
				together = append(together, one)
			} else {
				add(func(c *client) { c.settlesAny(one) })
			}
		}
		add(func(c *client) { c.settlesAny(together...) })
		switch s.luck.IntN(5) {
		case 0:
			add(func(c *client) { c.acts(id, task.KindCancelled) })
		case 1:
			child := task.ID{Batch: children.Batch, N: 4}
			add(func(c *client) { c.acts(child, task.KindCancelled) })
			add(func(c *client) { c.acts(child, task.KindReplayed) })
		}
		add(func(c *client) {
			c.looks(store.LookRequest{Addresses: []store.Address{store.ChildrenOf(id, 0)}})
		})
	}
	for range 3 {
		add(func(c *client) { c.looks(store.LookRequest{Limit: 2}) })
	}
	s.luck.Shuffle(len(deeds), func(i, k int) { deeds[i], deeds[k] = deeds[k], deeds[i] })
	var work sync.WaitGroup
	for lane, c := range s.lanes {
		work.Go(func() {
			for k := lane; k < len(deeds); k += len(s.lanes) {
				deeds[k](c)
			}
		})
	}
	work.Wait()
	s.judge(tops.Batch)
	s.endAll(tops.Batch)
}

// keyed makes a batch of children most of which have keys, which others of the round may have, too.
func (s *families) keyed(i, n int) store.Batch {
	b := s.brood(0, n, false)
	for k := range b.Tasks {
		if key := s.luck.IntN(6); key < 5 {
			b.Tasks[k].Key = fmt.Sprint("key ", i, " ", key)
			b.Tasks[k].KeyUntil = b.Due + 1e12
		}
	}
	return b
}

// settlesAny settles reports, whatever becomes of them.
func (c *client) settlesAny(reports ...store.Report) {
	c.Helper()
	must(c.Settle(c.Context(), store.Settlement{Reports: reports}))(c.TB)
}

// quiet looks until there is nothing to look at.
func (s *families) quiet() {
	for l := s.looks(store.LookRequest{}); ; l = s.looks(store.LookRequest{}) {
		if !l.More && s.count("SELECT count(*) FROM rota.change") == 0 {
			return
		}
	}
}

const (
	// miscounted are the counts of children that are not what their steps say.
	miscounted = `SELECT count(*) FROM (
  SELECT c.parent_batch AS batch, c.parent_n AS n, c.run, count(*) AS total,
    count(*) FILTER (WHERE o.base = -1 AND o.kind = 1) AS done,
    count(*) FILTER (WHERE o.base = -1 AND o.kind NOT IN (1, 9)) AS dead,
    count(*) FILTER (WHERE o.base = -1 AND o.kind = 9) AS cancelled
  FROM rota.child_batch c JOIN rota.pack p ON p.batch = c.batch
  CROSS JOIN LATERAL generate_series(p.lo, p.lo | 63) i (n)
  LEFT JOIN LATERAL (SELECT base, kind FROM (
    SELECT base, kind, seq FROM rota.step WHERE batch = c.batch AND n = i.n
    UNION ALL SELECT -1, 1, 0 FROM rota.mark m WHERE m.batch = c.batch AND m.lo = (i.n & -64)
      AND (m.bits >> (i.n & 63)) & 1 = 1) x ORDER BY seq DESC LIMIT 1) o ON true
  WHERE p.has >> (i.n & 63) & 1 = 1 GROUP BY 1, 2, 3) is_so
FULL JOIN rota.child_count k USING (batch, n, run)
WHERE is_so.total IS DISTINCT FROM k.total OR is_so.done IS DISTINCT FROM k.done
OR is_so.dead IS DISTINCT FROM k.dead OR is_so.cancelled IS DISTINCT FROM k.cancelled`

	// keptWaiting are waits whose children are over.
	keptWaiting = `SELECT count(*) FROM rota.wait w
JOIN rota.child_count k ON k.batch = w.batch AND k.n = w.n
WHERE k.total = k.done + k.dead + k.cancelled + k.expired
OR w.first AND k.dead + k.expired > 0`

	// left are children that have not begun below a parent that ended badly.
	left = `SELECT count(*) FROM rota.child_batch c
JOIN rota.step p ON p.batch = c.parent_batch AND p.n = c.parent_n AND p.base = -1 AND p.kind <> 1
JOIN rota.span s ON s.batch = c.batch
CROSS JOIN LATERAL rota.tasks(s.batch, s.lo, s.hi) t
WHERE NOT EXISTS (SELECT FROM rota.step x WHERE x.batch = t.batch AND x.n = t.n)
AND NOT EXISTS (SELECT FROM rota.mark m WHERE m.batch = t.batch AND m.lo = (t.n & -64)
  AND (m.bits >> (t.n & 63)) & 1 = 1)`
)

// judge holds what stands against what must.
func (s *families) judge(batch int64) {
	s.Helper()
	s.quiet()
	for query, want := range map[string]int64{
		miscounted: 0, keptWaiting: 0, left: 0,
		"SELECT count(*) FROM rota.span WHERE rank = " + never: s.count("SELECT count(*) FROM rota.wait"),
	} {
		if got := s.count(query); got != want {
			s.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

// endAll ends what is left of a round: then nobody waits.
func (s *families) endAll(batch int64) {
	s.Helper()
	var open []task.ID
	if err := s.glance(s.Context(), ask(`SELECT DISTINCT s.batch, t.n FROM rota.span s
CROSS JOIN LATERAL rota.tasks(s.batch, s.lo, s.hi) t
JOIN rota.child_batch c ON c.batch = s.batch`, func(r row) error {
		var id task.ID
		err := r.Scan(&id.Batch, &id.N)
		open = append(open, id)
		return err
	})); err != nil {
		s.Fatal(err)
	}
	for _, id := range open {
		s.acts(id, task.KindCancelled)
	}
	s.judge(batch)
	if n := s.count("SELECT count(*) FROM rota.wait"); n != 0 {
		s.Errorf("%d tasks still wait", n)
	}
	steps := 0
	if err := s.glance(s.Context(), ask(`SELECT result FROM rota.step WHERE kind = 15
AND batch = $1`, func(r row) error {
		var text []byte
		var w store.Woken
		err := r.Scan(&text)
		if err == nil {
			err = json.Unmarshal(text, &w)
		}
		if c := w.Children; err == nil && (c == nil || c.Open() != 0 && c.Dead == 0) {
			s.Errorf("a wait ended by %s", text)
		}
		steps++
		return err
	}, batch)); err != nil {
		s.Fatal(err)
	}
	if n := s.count(fmt.Sprint("SELECT count(DISTINCT n) FROM rota.step WHERE kind = 15 AND batch = ",
		batch)); n != int64(steps) {
		s.Errorf("%d tasks were woken %d times", n, steps)
	}
	s.woken += steps
	s.fallen = int(s.count(
		"SELECT count(*) FROM rota.step WHERE error LIKE 'parent % ended before this began'"))
	runSQL(s.TB, s.conf.DSN, "DELETE FROM rota.child_batch", "DELETE FROM rota.child_count",
		fmt.Sprintf("DELETE FROM rota.span WHERE batch = %d", batch))
}
