package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

// A take by keys of a queue finds the next key however much is queued of another one, because spans
// are sorted by then (sortkeys.go).

const (
	// countReady counts the first spans that are ready, and their tasks.
	countReady = `WITH clock AS MATERIALIZED (SELECT rota.micros($1) AS now)
SELECT count(*)::int, coalesce(sum(width), 0)::bigint, coalesce(max(deaths), 0)::int FROM (
  (SELECT rank, id, hi - lo + 1 AS width, deaths FROM rota.span
  WHERE holder IS NULL AND key IS NULL AND queue = $2 AND rank <= (SELECT now FROM clock)
  AND due <= (SELECT now FROM clock) ORDER BY rank, id LIMIT $3)
  UNION ALL
  (SELECT rank, id, hi - lo + 1, 0 FROM rota.span
  WHERE holder IS NULL AND key IS NOT NULL AND queue = $2 AND rank <= (SELECT now FROM clock)
  AND due <= (SELECT now FROM clock) ORDER BY rank, id LIMIT $3)
  ORDER BY rank, id LIMIT $3) f`
	anySorted = `EXISTS (SELECT FROM rota.span
  WHERE holder IS NULL AND key IS NOT NULL AND queue = $1 AND rank <= $2 AND due <= $2)`
	// keysOf are those of the tasks that are still their spans' own. Who is edited moves into a
	// span of its own.
	keysOf = `SELECT w.i::int, t.n, CASE WHEN e.seq IS NULL THEN coalesce(t.group_key, '')
ELSE coalesce(e.group_key, '') END
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[]) WITH ORDINALITY
  w (batch, lo, hi, seq0, i)
CROSS JOIN LATERAL rota.tasks(w.batch, w.lo, w.hi) t
LEFT JOIN LATERAL (SELECT seq, group_key FROM rota.edit WHERE batch = w.batch AND n = t.n
  AND w.seq0 > 0 ORDER BY seq DESC LIMIT 1) e ON true
WHERE coalesce((SELECT base FROM rota.step WHERE batch = w.batch AND n = t.n
  ORDER BY seq DESC LIMIT 1), 0) = w.seq0
AND NOT (w.seq0 = 0 AND EXISTS (SELECT FROM rota.mark m WHERE m.batch = w.batch
  AND m.lo = (t.n & -64) AND (m.bits >> (t.n & 63)) & 1 = 1))
ORDER BY w.i, t.n`
	sortedSpans = `SELECT ` + spanColumnList + ` FROM rota.span
WHERE holder IS NULL AND key IS NOT NULL AND queue = $1 AND rank <= $2 AND due <= $2
ORDER BY rank, id LIMIT $3`
	keysAfter = `WITH RECURSIVE k (key, i) AS (
  (SELECT key, 1 FROM rota.span WHERE holder IS NULL AND key IS NOT NULL AND queue = $1
  AND key >= $2 AND ($3 OR key <> $2) ORDER BY key LIMIT 1)
  UNION ALL
  SELECT n.key, k.i + 1 FROM k CROSS JOIN LATERAL (
    SELECT key FROM rota.span WHERE holder IS NULL AND key IS NOT NULL AND queue = $1
    AND key > k.key ORDER BY key LIMIT 1) n
  WHERE k.i < $4)
SELECT key FROM k ORDER BY i`
	spansOfKeys = `SELECT w.i::int, s.* FROM unnest($2::text[], $4::int[]) WITH ORDINALITY
  w (key, most, i)
CROSS JOIN LATERAL (SELECT ` + spanColumnList + ` FROM rota.span
  WHERE holder IS NULL AND key IS NOT NULL AND queue = $1 AND key = w.key AND rank <= $3
  AND due <= $3 ORDER BY rank, id LIMIT w.most) s
ORDER BY w.i, s.rank, s.id`
)

// keyTake is a take by keys under way.
type keyTake struct {
	*tx
	store.TakeRequest
	now    int64
	choice *rules.ByKey
	owners map[int64]task.ID // tasks that own their keys, by span
	turns  map[string]int    // how many tasks a turn of a key has; 0 = one
}

// takeByKey takes by keys.
func (s *spans) takeByKey(
	ctx context.Context, r store.TakeRequest,
) (answer store.Taken, err error) {
	count := rules.ReadyToCount(r.Keys)
	if count == 0 {
		return s.takeSorted(ctx, r)
	}
	var ready rules.Ready
	if err := s.glance(ctx, ask(countReady, func(r row) error {
		return r.Scan(&ready.Spans, &ready.Tasks, &ready.Deaths)
	}, s.clock(), r.Queue, count)); err != nil {
		return answer, fmt.Errorf("count what is ready: %w", err)
	}
	n, is := ready.AsItIs(r.Keys)
	if !is {
		return s.takeSorted(ctx, r)
	}
	keys := r.Keys
	r.Limit, r.Keys = n, nil
	if answer, err = s.take(ctx, r); err != nil {
		return answer, err
	}
	if answer.Left, answer.NextRank = answer.More, 0; answer.More {
		answer.After = keys.After
	}
	return answer, s.addKeys(ctx, answer.Spans)
}

// takeSorted sorts what is ready, and takes of that: what it chooses it takes unless somebody was
// quicker.
func (s *spans) takeSorted(
	ctx context.Context, r store.TakeRequest,
) (answer store.Taken, err error) {
	var spans []store.Span
	var chosen []int64
	var b keyTake
	unsorted := false // something is left that is not sorted
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		answer, spans = store.Taken{}, nil
		lives, paused := false, false
		var next *int64
		err := t.run(ctx, ask(whatIsLeft, func(r row) error {
			return r.Scan(&answer.Now, &lives, &paused, &next, &answer.NextDue)
		}, s.clock(), r.Holder.Node, r.Holder.Token, r.Queue))
		if answer.LeaseGone = !lives; err != nil {
			return err
		}
		if !lives || paused || r.Limit <= 0 {
			answer.NextDue = 0
			return t.finish(ctx)
		}
		b = keyTake{
			tx: t, TakeRequest: r, now: answer.Now, choice: rules.ChooseByKey(&r, answer.Now),
			owners: map[int64]task.ID{}, turns: map[string]int{},
		}
		if chosen, unsorted, err = b.choose(ctx, &answer); err != nil {
			return err
		}
		return t.finish(ctx, ask(takeThose, func(r row) error {
			sp, err := scanSpan(r)
			spans = append(spans, sp)
			return err
		}, chosen, r.Holder.Node, r.Holder.Token, s.clock()),
			ask("SELECT "+anySorted, func(r row) error {
				sorted := false
				err := r.Scan(&sorted)
				answer.Left = unsorted || sorted
				return err
			}, r.Queue, answer.Now))
	})
	if err != nil {
		return answer, err
	}
	place := make(map[int64]int, len(chosen))
	for i, id := range chosen {
		place[id] = i
	}
	slices.SortFunc(spans, func(a, b store.Span) int { return place[a.ID] - place[b.ID] })
	for i := range spans {
		if id, owned := b.owners[spans[i].ID]; owned {
			answer.Owners = append(answer.Owners, id)
		}
		if turn := b.turnOf(spans[i].Key); turn > 1 {
			if answer.Turns == nil {
				answer.Turns = map[string]int{}
			}
			answer.Turns[spans[i].Key] = turn
		}
	}
	answer.Spans, err = s.loadTaken(ctx, spans)
	return answer, err
}

// addKeys says of spans that are not sorted, and are held since a moment, which keys their tasks
// have; not of those with which a holder died since it was looked what is ready, which are to be
// sorted.
func (s *spans) addKeys(ctx context.Context, spans []store.HeldSpan) error {
	var at []int
	var of readColumns
	for i := range spans {
		if !spans[i].Sorted && spans[i].Deaths == 0 {
			at = append(at, i)
			of.add(&spans[i].Span)
		}
	}
	if len(at) == 0 {
		return nil
	}
	keys := make([]map[int32]string, len(at))
	err := s.readOnce(context.WithoutCancel(ctx), func(ctx context.Context, r runner) error {
		for i := range keys {
			keys[i] = map[int32]string{}
		}
		return r.run(ctx, ask(keysOf, func(r row) error {
			var i int
			var n int32
			var key string
			err := r.Scan(&i, &n, &key)
			keys[i-1][n] = key
			return err
		}, of.batches, of.los, of.his, of.seqs))
	})
	if err != nil {
		return fmt.Errorf("%w: %d spans are held, but reading their keys: %w", store.ErrUnknown,
			len(at), err)
	}
	for i, k := range at {
		held := &spans[k]
		for _, l := range held.Tasks {
			key, known := keys[i][l.N]
			if !known { // its outcome came meanwhile
				held.Keys = nil
				break
			}
			held.Keys = append(held.Keys, key)
		}
	}
	return nil
}

// readColumns are spans as statements take them.
type readColumns struct {
	batches        []int64
	los, his, seqs []int32
}

func (c *readColumns) add(sp *store.Span) {
	c.batches = append(c.batches, sp.Batch)
	c.los = append(c.los, sp.Lo)
	c.his = append(c.his, sp.Hi)
	c.seqs = append(c.seqs, sp.Seq0)
}

// choose sorts, and chooses spans; more tells that something is left to sort.
func (b *keyTake) choose(
	ctx context.Context, answer *store.Taken,
) (chosen []int64, more bool, err error) {
	more, err = b.sort(ctx)
	if err == nil && !b.Keys.Fair && !b.choice.Enough() {
		var list []store.Span
		err = b.run(ctx, ask(sortedSpans, spansInto(&list), b.Queue, b.now,
			rules.SpansByRank*b.Limit))
		if err == nil {
			err = b.offer(ctx, list)
		}
	}
	cut := false
	if answer.After = b.Keys.After; err == nil && !b.choice.Enough() {
		answer.After, cut, err = b.byTurn(ctx)
	}
	answer.More = more || cut || b.choice.Enough() || answer.After != nil || b.Keys.After != nil
	if soon := b.choice.Soon(); soon > 0 && (answer.NextDue == 0 || soon < answer.NextDue) {
		answer.NextDue = soon
	}
	return append([]int64{}, b.choice.Chosen...), more, err
}

func spansInto(list *[]store.Span) func(row) error {
	return func(r row) error {
		sp, err := scanSpan(r)
		*list = append(*list, sp)
		return err
	}
}

// byTurn chooses among the spans of the next keys. It says behind which key to go on, and whether
// keys that it looked at may have more.
func (b *keyTake) byTurn(ctx context.Context) (after *string, cut bool, err error) {
	var open []string
	after = b.Keys.After
	for looked := 0; looked < rules.KeysAtOnce && len(open) < b.Limit; {
		asked := min(b.Limit+16, rules.KeysAtOnce-looked)
		from := ""
		if after != nil {
			from = *after
		}
		var page []string
		if err := b.run(ctx, ask(keysAfter, func(r row) error {
			var key string
			err := r.Scan(&key)
			page = append(page, key)
			return err
		}, b.Queue, from, after == nil, asked)); err != nil {
			return nil, false, err
		}
		if err := b.stand(ctx, page); err != nil {
			return nil, false, err
		}
		looked += len(page)
		for i, key := range page {
			if len(open) == b.Limit {
				break
			}
			after = &page[i]
			if b.choice.Open(key) {
				open = append(open, key)
			}
		}
		if len(page) < asked && len(open) < b.Limit {
			after = nil
			break
		}
	}
	if len(open) == 0 {
		return after, false, nil
	}
	turns := make([]int, len(open))
	for i, key := range open {
		turns[i] = b.turnOf(key)
	}
	rounds, most := b.choice.Rounds(turns)
	lists := make([][]store.Span, len(open))
	if err := b.run(ctx, ask(spansOfKeys, func(r row) error {
		var i int
		sp, err := scanSpan(r, &i)
		lists[i-1] = append(lists[i-1], sp)
		return err
	}, b.Queue, open, b.now, most)); err != nil {
		return nil, false, err
	}
	for round := range rounds {
		for i, list := range lists {
			from, to := min(round*turns[i], len(list)), min((round+1)*turns[i], len(list))
			for k := from; k < to; k++ {
				b.offerOne(&list[k])
			}
		}
	}
	for i, key := range open {
		cut = cut || len(lists[i]) == most[i] && b.choice.Open(key)
	}
	return after, cut, nil
}

// turnOf is how many tasks a turn of a key has. It is known how the key stands.
func (b *keyTake) turnOf(key string) int { return max(b.turns[key], 1) }

// offer has the choice between spans.
func (b *keyTake) offer(ctx context.Context, list []store.Span) error {
	var keys []string
	for i := range list {
		keys = append(keys, list[i].Key)
	}
	slices.Sort(keys)
	if err := b.stand(ctx, slices.Compact(keys)); err != nil {
		return err
	}
	for i := range list {
		b.offerOne(&list[i])
	}
	return nil
}

// offerOne has the choice of a span, or of the one that its key, which goes in order, wants first.
func (b *keyTake) offerOne(sp *store.Span) {
	id, tasks := sp.ID, width(sp)
	if only := b.choice.Only(sp.Key); only != 0 {
		id, tasks = only, 1
	}
	b.choice.Offer(id, sp.Key, tasks)
}

// stand tells the choice how keys stand.
func (b *keyTake) stand(ctx context.Context, keys []string) error {
	var unknown, queues []string
	for _, key := range keys {
		if !b.choice.Knows(key) {
			unknown = append(unknown, key)
			queues = append(queues, b.Queue)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	gates := map[string]*rules.KeyStand{}
	err := b.run(ctx, ask(keyGatesOf, func(r row) error {
		s, err := scanKeyStand(r)
		if s.Next = s.taken(); s.Next != 0 && s.Owner != (task.ID{}) {
			b.owners[s.Next] = s.Owner
		}
		gates[s.Key], b.turns[s.Key] = &s.KeyStand, s.weight
		return err
	}, queues, unknown, b.clock(), namedAtOnce, false))
	for _, key := range unknown {
		if key == "" {
			delete(gates, key)
		}
		b.choice.Stands(key, gates[key])
	}
	return err
}
