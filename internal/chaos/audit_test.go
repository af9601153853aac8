//go:build chaos && unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/task"
)

// say logs a line with the time, as the logs of the nodes have it.
func (w *world) say(format string, args ...any) {
	w.t.Helper()
	w.t.Logf(time.Now().UTC().Format("15:04:05.000 ")+format, args...)
}

// talk says how things stand until hush.
func (w *world) talk() {
	ctx, stop := context.WithCancel(context.Background())
	var talking sync.WaitGroup
	talking.Go(func() { w.progress(ctx) })
	w.hush = func() {
		stop()
		talking.Wait()
	}
}

// progress says every ten seconds how things stand, until ctx ends.
func (w *world) progress(ctx context.Context) {
	began := time.Now()
	tell := time.NewTicker(10 * time.Second)
	defer tell.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tell.C:
		}
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		counts, err := w.counts(ask)
		cancel()
		state := fmt.Sprintf("%+v", counts)
		if err != nil {
			state = "no node answers"
		}
		w.say("%v: %d tasks asked for, %d acknowledged; %s", time.Since(began).Round(time.Second),
			w.asked.Load(), w.agreed.Load(), state)
	}
}

// counts adds up what a node says of the queues.
func (w *world) counts(ctx context.Context) (sum task.Counts, err error) {
	queues, err := w.client.Queues(ctx)
	for _, q := range queues {
		sum.Blocked += q.Counts.Blocked
		sum.Waiting += q.Counts.Waiting
		sum.Ready += q.Counts.Ready
		sum.Running += q.Counts.Running
		sum.Done += q.Counts.Done
		sum.Dead += q.Counts.Dead
		sum.Cancelled += q.Counts.Cancelled
	}
	return sum, err
}

// audit stops the submitters, waits until everything is final, ends everybody in good order, and
// holds the ledgers against what stands in the database.
func (w *world) audit(c conditions) *verdict {
	w.t.Helper()
	w.submitting()
	w.submitters.Wait()
	w.awaitNodes()
	began := time.Now()
	var last task.Counts
	w.await("everything is final", func() (err error) {
		last, err = w.counts(w.t.Context())
		if open := last.Blocked + last.Waiting + last.Ready + last.Running; open > 0 {
			err = errors.Join(err, fmt.Errorf("%+v, as in %s", last, w.unfinished()))
		}
		return err
	})
	w.say("everything is final %v after the last fault",
		time.Since(began).Round(100*time.Millisecond))
	w.hush()
	for _, d := range w.workers {
		if err := d.end(); err != nil {
			w.t.Errorf("worker %s ended: %v\n%s", d.name, err, d.last())
		}
	}
	for _, n := range w.nodes {
		if err := n.end(); err != nil {
			w.t.Errorf("node %s ended: %v", n.name, err)
		}
	}
	w.transcribe(last)
	v, err := check(w.ledgers, c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("%d faults; %v", w.faults, v)
	if len(v.Wrong) > 0 {
		w.t.Errorf("what is wrong:\n%s", strings.Join(v.Told, "\n"))
	}
	if v.Acknowledged == 0 || v.Accepted == 0 || v.Dead == 0 || v.Full == 0 ||
		v.Gathered == 0 || v.Woken == 0 || v.Late == 0 {
		w.t.Error("nothing was tested")
	}
	return v
}

// unfinished shows a few tasks that are not final.
func (w *world) unfinished() string {
	var b strings.Builder
	for _, state := range []task.State{
		task.Ready, task.Running, task.Waiting, task.Blocked,
	} {
		views, _, err := w.client.Tasks(w.t.Context(), client.TaskFilter{State: state}, "", 2)
		if err != nil {
			return err.Error()
		}
		for _, v := range views {
			v, err := w.client.Task(w.t.Context(), v.ID, 0)
			fmt.Fprintf(&b, "%+v %v; ", v, err)
		}
	}
	return b.String()
}

// transcribe writes down what stands in the database, counts it, and looks for what should not be
// there.
func (w *world) transcribe(said task.Counts) {
	w.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, w.db.primary().DSN(databaseName))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(ctx)
	final, err := w.copyFacts(ctx, conn)
	if err != nil {
		w.t.Fatal(err)
	}
	if said != final {
		w.t.Errorf("a node says %+v, and there are %+v", said, final)
	}
	for wrong, query := range leftovers {
		var examples []string
		rows, err := conn.Query(ctx, "SELECT to_jsonb(x)::text FROM ("+query+") x LIMIT 5")
		if err == nil {
			examples, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		switch {
		case err != nil:
			w.t.Errorf("%s: %v", query, err)
		case len(examples) > 0:
			w.t.Errorf("%s: %s", wrong, strings.Join(examples, ", "))
		}
	}
	var over int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM rota.running").Scan(&over); err != nil {
		w.t.Error(err)
	}
	w.t.Logf("%d rows are left of hand-outs that are over", over)
}

// leftovers are what no row should answer to, once all tasks are final and all nodes have left.
var leftovers = map[string]string{
	"a span is left":                   "SELECT * FROM rota.span",
	"a node that has left is a member": "SELECT * FROM rota.lease WHERE name LIKE 'node/%' AND until > extract(epoch FROM now()) * 1e6",
	"an event is missing":              "SELECT last, n FROM rota.event_head, (SELECT count(*) n FROM rota.event) e WHERE last <> n",
	"a key has several tasks":          "SELECT key FROM rota.tasks WHERE key IS NOT NULL GROUP BY key HAVING count(*) > 1",
	"a key's task is not there":        "SELECT k.* FROM rota.task_key k LEFT JOIN rota.tasks t USING (batch, n) WHERE t.batch IS NULL",
	"a step's task is not there":       "SELECT s.* FROM rota.outcome s LEFT JOIN rota.tasks t USING (batch, n) WHERE t.batch IS NULL",
	"a task has two outcomes at a seq": "SELECT batch, n, seq FROM rota.outcome GROUP BY batch, n, seq HAVING count(*) > 1",
	// One at a seq with an outcome is over: readers know it for what it is.
	"a hand-out is left": `SELECT u.*,
		  (SELECT jsonb_agg(to_jsonb(s) - 'context' ORDER BY seq) FROM rota.step s WHERE s.batch = u.batch AND s.n = u.n) steps
		FROM rota.running u LEFT JOIN rota.outcome p USING (batch, n, seq) WHERE p.batch IS NULL`,
}

// facts are all tasks with their steps, those that stand in the rows of packs among them. The mark
// is the idempotency key, too, or the group key of a task that has none, because a large context
// stands elsewhere.
const facts = `SELECT t.batch, t.n, coalesce(t.key, t.group_key), s.seq, s.token, s.kind, s.base,
  coalesce(s.error, ''), coalesce(s.finished, 0)
  FROM rota.tasks t LEFT JOIN rota.outcome s USING (batch, n)`

// copyFacts writes the facts into a ledger, and counts the tasks.
func (w *world) copyFacts(ctx context.Context, conn *pgx.Conn) (sum task.Counts, err error) {
	b := w.open("facts")
	rows, err := conn.Query(ctx, facts)
	if err != nil {
		return sum, err
	}
	defer rows.Close()
	var lines []line
	for rows.Next() {
		l := line{Deed: stepped}
		var seq, kind, base *int32
		var fence *int64
		if err := rows.Scan(
			&l.ID.Batch, &l.ID.N, &l.Mark, &seq, &fence, &kind, &base, &l.Text, &l.At,
		); err != nil {
			return sum, err
		}
		if seq == nil || *seq == 0 {
			lines = append(lines, line{Deed: stands, Mark: l.Mark, ID: l.ID})
		}
		if seq != nil {
			l.Seq, l.Fence, l.Kind, l.Final = *seq, *fence, task.Kind(*kind), *base == -1
			lines = append(lines, l)
		}
		if l.Final && l.Kind.Leaves() == task.Done {
			sum.Done++
		} else if l.Final {
			sum.Dead++
		}
		if len(lines) > 1000 {
			if err := b.write(lines...); err != nil {
				return sum, err
			}
			lines = lines[:0]
		}
	}
	return sum, errors.Join(rows.Err(), b.write(lines...))
}
