package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/rules"
	"github.com/rotahq/rota/task"
)

const (
	// aheadWaiting looks at free spans in the order in which they are taken. Of one that nobody
	// ever held all tasks are ready once it is due, and have its rank.
	aheadWaiting = `SELECT count(*), coalesce(sum(iif(token = 0 AND due <= ?2
  AND (rank < ?3 OR batch < ?4 OR batch = ?4 AND hi < ?5), size, 0)), 0)
FROM (SELECT * FROM (SELECT batch, hi, rank, due, token, size FROM span INDEXED BY span_ready
    WHERE holder IS NULL AND key IS NULL AND queue = ?1 AND rank <= ?3 ORDER BY rank, id LIMIT ?6)
  UNION ALL
  SELECT * FROM (SELECT batch, hi, rank, due, token, size FROM span INDEXED BY span_sorted
    WHERE holder IS NULL AND key IS NOT NULL AND queue = ?1 AND rank <= ?3
    ORDER BY rank, id LIMIT ?6))`

	aheadHeld = `SELECT ` + spanColumns + ` FROM span WHERE holder IS NOT NULL AND queue = ?`
)

// Ahead counts the ready tasks that come before another one. See contract.Views.
func (s *viewCalls) Ahead(ctx context.Context, id task.ID, limit int) (a store.Ahead, err error) {
	now := s.clock()
	err = s.read(ctx, func(c *conn) error {
		f, found, err := c.facts().fact(id)
		if err != nil || !found || f.Owner.ID == 0 || f.Owner.Parked() {
			return err
		}
		a, err = c.views().ahead(&f, now, limit)
		return err
	})
	if err != nil {
		return store.Ahead{}, fmt.Errorf("count what comes before task %s: %w", id, err)
	}
	return a, nil
}

func (c viewReads) ahead(f *rules.Fact, now int64, limit int) (a store.Ahead, err error) {
	if _, err = c.one(aheadWaiting, func(st *sqlite.Stmt) {
		a.Tasks, a.More = st.ColumnInt64(1), st.ColumnInt(0) >= limit
	}, f.Queue, now, f.RankNow(), f.ID.Batch, f.ID.N, limit); err != nil {
		return a, err
	}
	var used []store.Span
	for _, query := range []string{aheadHeld, spansFreed} {
		if err := c.each(query, func(st *sqlite.Stmt) bool {
			used = append(used, scanSpan(st))
			return true
		}, f.Queue); err != nil {
			return a, err
		}
	}
	if own := f.Owner; own.Token == 0 {
		own.Hi = f.ID.N - 1
		if _, err := c.aheadIn(&a, f, &own, now, limit); err != nil {
			return a, err
		}
	}
	if home, err := c.home(f, now); err != nil {
		return a, err
	} else if home.ID != 0 {
		if _, err := c.aheadIn(&a, f, &home, now, limit); err != nil {
			return a, err
		}
	}
	left := limit
	for i := range used {
		if left, err = c.aheadIn(&a, f, &used[i], now, left); err != nil || left == 0 {
			a.More = true
			return a, err
		}
	}
	return a, nil
}

// home is the part before the task of the span that it left, if nobody ever held that one and its
// tasks still have the rank of the task, as after an edit: which of them come first, their numbers
// say. Zero when there is none.
func (c viewReads) home(f *rules.Fact, now int64) (home store.Span, err error) {
	if f.Base == 0 {
		return home, nil
	}
	_, err = c.one(findOwner, func(st *sqlite.Stmt) {
		sp := scanSpan(st)
		if sp.Hi >= f.ID.N && sp.Token == 0 && sp.Due <= now && sp.Rank == f.RankNow() {
			home, home.Hi = sp, f.ID.N-1
		}
	}, f.ID.Batch, 0, f.ID.N)
	if home.Hi < home.Lo {
		return store.Span{}, err
	}
	return home, err
}

// aheadIn looks at the tasks of a span one by one, at most limit of them, and says how many more
// may be looked at.
func (c viewReads) aheadIn(
	a *store.Ahead, f *rules.Fact, sp *store.Span, now int64, limit int,
) (left int, err error) {
	var facts []rules.Fact
	err = c.facts().facts(sp.Batch, sp.Lo, sp.Hi, func(f *rules.Fact) bool {
		facts = append(facts, *f)
		return len(facts) < limit
	})
	if err != nil {
		return 0, err
	}
	for i := range facts {
		other := &facts[i]
		if other.Base != sp.Seq0 {
			continue
		}
		if err := c.facts().complete(other); err != nil {
			return 0, err
		}
		if other.State(now, false) == task.Ready && f.Before(other) {
			a.Tasks++
		}
	}
	a.More = a.More || len(facts) == limit
	return limit - len(facts), nil
}
