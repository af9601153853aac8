//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/pack"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// drawTasks draws tasks of one batch: dense or sparse numbers, from anywhere on.
func drawTasks(t *rapid.T) (list []store.Task) {
	text := rapid.StringN(0, 3, 40)
	n, step := rapid.Int32Range(0, 200).Draw(t, "first"), rapid.Int32Range(1, 70).Draw(t, "step")
	context := rapid.SampledFrom([]int{0, 100, 1000, store.InlineLimit}).Draw(t, "context")
	for range rapid.IntRange(1, 150).Draw(t, "tasks") {
		k := store.Task{N: n, Stage: "first"}
		if size := rapid.IntRange(-1, context).Draw(t, "size"); size >= 0 {
			k.Context = make(store.Value, size)
		}
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			k.Stage = rapid.SampledFrom([]string{"", "ü", "first"}).Draw(t, "stage")
			k.Key, k.GroupKey = text.Draw(t, "key"), text.Draw(t, "group")
			k.MaxAttempts, k.Timeout = rapid.Int32().Draw(t, "attempts"), rapid.Int64().Draw(t, "t")
		}
		if rapid.IntRange(0, 9).Draw(t, "carries") == 0 {
			size := rapid.IntRange(1, limits.MaxMetaSize).Draw(t, "meta")
			k.Meta = store.Meta(strings.Repeat("m", size))
		}
		if rapid.IntRange(0, 9).Draw(t, "hurries") == 0 {
			k.StartWithin = rapid.Int64Range(1, 1<<50).Draw(t, "within")
		}
		list = append(list, k)
		n += rapid.Int32Range(1, step).Draw(t, "gap")
	}
	return list
}

// Rows keep to their page of numbers and to their page of the file, and say what went in.
func TestPacksHaveEachTaskOnceInRowsThatFit(t *testing.T) {
	story.Whole(t)
	rapid.Check(t, func(t *rapid.T) {
		var p packs
		want := map[task.ID]store.Task{}
		for batch := range int64(rapid.IntRange(1, 3).Draw(t, "batches")) {
			list := drawTasks(t)
			p.add(batch, list)
			for _, k := range list {
				want[task.ID{Batch: batch, N: k.N}] = k
			}
		}
		keys := len(p.keyed.key)
		for i := range p.chunks {
			c := &p.chunks[i]
			c.args()
			if len(c.context) > chunkTasks+pack.Size || len(c.lo) == 0 {
				t.Fatalf("a statement has %d places and %d rows", len(c.context), len(c.lo))
			}
			for k, lo := range c.lo {
				from, to := c.first[k]-1, c.last[k]
				row := loadedPack{
					first: lo, last: lo | 63, has: c.has[k], stage: c.stage[k],
					contexts: c.context[from:to],
				}
				if c.metas != nil {
					for _, meta := range filled(c.metas, len(c.context))[from:to] {
						row.metas = append(row.metas, &meta)
					}
				}
				if c.stages != nil {
					row.stages = c.stages[from:to]
				}
				if c.attempts != nil {
					row.attempts = c.attempts[from:to]
				}
				if c.timeouts != nil {
					row.timeouts = c.timeouts[from:to]
				}
				if c.withins != nil {
					row.withins, row.due = c.withins[from:to], new(int64(1000))
				}
				size := len(row.stage)
				for l := range row.tasks() {
					id := task.ID{Batch: c.batch[k], N: l.N}
					w, ok := want[id]
					delete(want, id)
					at := int(from + l.N - lo)
					got := store.Task{
						N: l.N, Stage: l.Stage, Context: l.Context, MaxAttempts: l.MaxAttempts,
						Timeout: l.Timeout, Key: element(c.keys, at),
						GroupKey: element(c.groupKeys, at), Meta: l.Meta,
						StartWithin: max(l.Expires-1000, 0),
					}
					if diff := cmp.Diff(w, got); diff != "" || !ok {
						t.Fatalf("task %v: %v\n%s", id, ok, diff)
					}
					size += len(l.Context) + len(got.Key) + len(got.GroupKey) + len(got.Meta) + 4
					if w.Key != "" {
						keys--
					}
				}
				if size > rowLimit {
					t.Fatalf("a row of %d bytes", size)
				}
			}
		}
		if len(want) > 0 || keys != 0 {
			t.Fatalf("%d tasks are missing, %d keys are wrong", len(want), keys)
		}
	})
}

// What the server makes of rows: no row outgrows its page, nothing is moved out of it, and both
// functions and the view show the tasks as they went in.
func TestRowsStayInTheirPagesAndShowTheirTasks(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{}))
	for _, size := range []int{0, 1, 124, store.InlineLimit} {
		for _, n := range []int{1, 63, 64, 65, 200} {
			b := c.batch(n, n, false)
			for i := range b.Tasks {
				k := &b.Tasks[i]
				k.N += 5
				k.Context = store.Value(strings.Repeat("x", size))
				if n == 200 {
					k.GroupKey, k.Stage = strings.Repeat("g", 256), strings.Repeat("s", i+1)
					k.MaxAttempts, k.Timeout = int32(i), int64(i)
				}
				if i%3 == 1 {
					k.Meta = store.Meta(`{"m": "` + strings.Repeat("m", 10*i) + `"}`)
				}
				if i%5 == 1 {
					k.StartWithin = int64(i)
				}
			}
			b.Spans[0].Hi += 5
			c.submit(b)
			for _, from := range []string{"rota.tasks($1, 0, 1000)",
				"rota.tasks WHERE batch = $1", "generate_series(0, 300) n, rota.task($1, n)"} {
				var got []store.Task
				if err := c.glance(t.Context(), ask(`SELECT n, stage, context, coalesce(key, ''),
coalesce(group_key, ''), coalesce(max_attempts, 0), coalesce(timeout, 0),
coalesce(meta::text, ''), coalesce(start_within, 0) FROM (SELECT * FROM `+from+
					`) t (`+map[bool]string{true: "i, ", false: ""}[from[0] == 'g']+`batch, n, stage, context,
key, group_key, max_attempts, timeout, meta, start_within) ORDER BY n`, func(r row) error {
					var k store.Task
					err := r.Scan(&k.N, &k.Stage, &k.Context, &k.Key, &k.GroupKey, &k.MaxAttempts,
						&k.Timeout, (*string)(&k.Meta), &k.StartWithin)
					got = append(got, k)
					return err
				}, b.ID)); err != nil {
					t.Fatal(err)
				}
				// not by a diff of both: that takes seconds, also when they are equal
				if !reflect.DeepEqual(b.Tasks, got) {
					t.Fatalf("%d of %d bytes, %s:\n%s", n, size, from,
						cmp.Diff(b.Tasks, got))
				}
			}
		}
	}
	if n := c.count(`SELECT sum(pg_relation_size(c.reltoastrelid))::bigint FROM pg_class c
WHERE relname LIKE 'pack\_%' AND relkind = 'r'`); n != 0 {
		t.Errorf("%d bytes stand outside of their rows", n)
	}
	const odd = `SELECT count(*) FROM pg_class WHERE relname LIKE 'pack\_%' AND relkind = 'r'
AND reloptions::text IS DISTINCT FROM '{toast_tuple_target=8160}'`
	if n := c.count(odd); n != 0 {
		t.Errorf("%d partitions move what is long out of their rows", n)
	}
}

// Retention takes one task after the other out of its pack, with all it had, and the pack goes with
// the last.
func TestRetentionTakesTasksOutOfTheirPacks(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now, Linger: -1}))
	b := c.batch(130, 130, true)
	for i := range b.Tasks {
		k := &b.Tasks[i]
		k.Context = store.Value(fmt.Sprintf(`"secret-%d-"`, i))
		k.Key, k.KeyUntil = fmt.Sprintf("key-%d-", i), b.Due+1e14
		k.GroupKey = fmt.Sprintf("group-%d-", i)
	}
	sp := c.submit(b)[0]
	const step = 7
	for at := int32(0); at < 130; at += step {
		var set store.Settlement
		for n := at; n < min(at+step, 130); n++ {
			set.Reports = append(set.Reports,
				report(&sp, n*31%130, 0, clock.Micros(), task.Finish(nil)))
		}
		if _, err := c.Settle(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Hour)
	}
	clock.Advance(limits.DefaultRetention - (130/step+1)*time.Hour)
	left := int64(130)
	for left > 0 {
		n := c.prune()
		if left -= int64(n); n > step || n == 0 {
			t.Fatalf("%d were deleted at once", n)
		}
		for _, query := range []string{"SELECT count(*) FROM rota.tasks",
			"SELECT count(*) FROM rota.keyed", `SELECT count(*) FROM rota.pack p,
unnest(p.contexts) x WHERE x IS NOT NULL`,
			"SELECT count(*) FROM rota.pack p, unnest(p.keys) x WHERE x <> ''",
			"SELECT count(*) FROM rota.pack p, unnest(p.group_keys) x WHERE x <> ''",
			`SELECT count(*) FROM rota.tasks WHERE encode(context, 'escape') = '"secret-' || n || '-"'
AND key = 'key-' || n || '-' AND group_key = 'group-' || n || '-'`} {
			if n := c.count(query); n != left {
				t.Fatalf("%s: %d, want %d", query, n, left)
			}
		}
		clock.Advance(time.Hour)
	}
	if n := c.count("SELECT count(*) FROM rota.pack"); n != 0 {
		t.Errorf("%d packs are left", n)
	}
}

// A partition's survivors take their packs along, without the tasks that do not survive.
func TestSurvivorsTakeTheirPacksAlong(t *testing.T) {
	story.Whole(t)
	clock := contract.NewClock()
	c := join(t, open(t, Config{Now: clock.Now}))
	b := c.batch(300, 300, true)
	for i := range b.Tasks {
		b.Tasks[i].Key, b.Tasks[i].KeyUntil = fmt.Sprint("k", i), b.Due+1e14
	}
	sp := c.submit(b)[0]
	var set store.Settlement
	for n := range int32(300) {
		if n%50 != 3 {
			set.Reports = append(set.Reports, report(&sp, n, 0, clock.Micros(), task.Finish(nil)))
		}
	}
	if _, err := c.Settle(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	clock.Advance(limits.DefaultRetention + 25*time.Hour)
	if n := c.prune(); n != 0 {
		t.Errorf("%d tasks were deleted one by one", n)
	}
	c.counts(task.Counts{Ready: 6})
	for query, want := range map[string]int64{"SELECT count(*) FROM rota.pack": 4,
		"SELECT count(*) FROM rota.tasks": 6, "SELECT count(*) FROM rota.keyed": 6,
		`SELECT count(*) FROM rota.pack p, unnest(p.contexts) x WHERE x IS NOT NULL`: 6} {
		if n := c.count(query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	page, _, err := c.Tasks(t.Context(), store.Filter{Key: "k103"}, task.ID{}, 10)
	if err != nil || len(page) != 1 || page[0].ID.N != 103 {
		t.Errorf("one by its key: %+v, %v", page, err)
	}
}

// Who deletes one task of a pack holds up nobody who acts on another one.
func TestActingOnOnePackWaitsForNobody(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(64, 64, false))[0]
	o.do("SELECT FROM rota.pack WHERE batch = $1 FOR KEY SHARE", sp.Batch) // another's removal
	acted := must(o.Act(t.Context(), []store.Action{
		{ID: task.ID{Batch: sp.Batch, N: 7}, Kind: task.KindRemoved},
		{ID: task.ID{Batch: sp.Batch, N: 8}, Kind: task.KindCancelled},
	}))(t)
	if !acted[0].Changed || !acted[1].Changed {
		t.Errorf("got %+v", acted)
	}
	line := []task.LogLine{{Time: time.UnixMicro(7), Stream: "out", Text: "x"}}
	if err := o.AppendLog(t.Context(), task.ID{Batch: sp.Batch, N: 9}, line); err != nil {
		t.Error(err)
	}
}

// Deleting one task of a pack is waited for, and takes nothing from its neighbours.
func TestActingWaitsForTheDeletionOfANeighbour(t *testing.T) {
	o := meanwhile(t)
	sp := o.submit(o.batch(64, 64, false))[0]
	batch := []int64{sp.Batch}
	o.do(lockPackRows, batch, []int32{3})
	acted := make(chan []store.Acted, 1)
	go func() {
		acted <- must(o.Act(t.Context(), []store.Action{
			{ID: task.ID{Batch: sp.Batch, N: 3}, Kind: task.KindCancelled},
			{ID: task.ID{Batch: sp.Batch, N: 4}, Kind: task.KindCancelled},
		}))(t)
	}()
	o.awaitLock(t)
	if mine := len(must(o.lockOnce([]task.ID{{Batch: sp.Batch, N: 5}}))(t)); mine != 0 {
		t.Errorf("%d tasks of a pack were locked that another deletes from", mine)
	}
	o.do(dropTasks, batch, []int32{3})
	o.commits()
	if got := <-acted; got[0].Found || !got[1].Changed {
		t.Errorf("got %+v", got)
	}
	if n := o.count("SELECT count(*) FROM rota.tasks"); n != 63 {
		t.Errorf("%d tasks are left", n)
	}
}

// lockOnce locks tasks in a transaction of its own, and says which it got.
func (c *client) lockOnce(ids []task.ID) (mine []task.ID, err error) {
	err = c.write(c.Context(), func(ctx context.Context, t *tx) error {
		mine, _, err = t.lock(ctx, ids)
		return err
	})
	return mine, err
}

// Statements that ask for tasks find their packs by key, and ask for them in the order in which
// they are written: nothing hides a function that runs for each row.
func TestTasksAreFoundByTheKeysOfTheirPacks(t *testing.T) {
	story.Whole(t)
	c := join(t, open(t, Config{}))
	var ids []int64
	for range 10 {
		b := c.batch(5000, 1000, false)
		c.submit(b)
		ids = append(ids, b.ID)
	}
	conn, err := pgx.Connect(t.Context(), c.conf.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, value := range transactions {
		if _, err := conn.Exec(t.Context(), `SELECT set_config($1, $2, false)`, name,
			value); err != nil {
			t.Fatal(err)
		}
	}
	batch, n := []int64{ids[3]}, []int32{77}
	for name, q := range map[string]query{
		"facts": tell(findFacts, batch, n, true), "packs": tell(freshPacks, batch, n, []int32{200}),
		"steps": tell(newestSteps, batch, n, []int32{200}), "lock": tell(lockPackRows, batch, n),
		"log": tell(taskLogs.stands, ids[3], 77), "ahead": tell(aheadOwn, ids[3], 0, 100, 0, 100),
		"unknown":   tell(whyNot, batch, n, n),
		"stretches": tell(inStretches.few, batch, n, []int32{200}, nil),
		"running": tell(writeDown, nil, "a", c.holder.Token, batch, n, n, batch, batch,
			[]string{"w"}, []string{"i"}, batch, batch, batch, batch[0], batch[0],
			[]*string{nil}),
	} {
		for _, analyze := range []string{"", "ANALYZE"} {
			if analyze != "" {
				if _, err := conn.Exec(t.Context(), analyze); err != nil {
					t.Fatal(err)
				}
			}
			var answer []byte
			err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+q.text,
				q.args...).Scan(&answer)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var plans []struct{ Plan plan }
			if err := json.Unmarshal(answer, &plans); err != nil {
				t.Fatal(err)
			}
			called := slices.ContainsFunc([]string{`"Function Name": "task"`,
				`"Function Name": "tasks"`}, func(s string) bool {
				return strings.Contains(string(answer), s)
			})
			if read := plans[0].Plan.read(); called || read > 200 {
				t.Errorf("%s reads %v rows, or calls a function for them (%v):\n%s", name, read,
					called, answer)
			}
		}
	}
}
