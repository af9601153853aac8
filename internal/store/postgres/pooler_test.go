//go:build unix

package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/contract"
	"github.com/rotahq/rota/internal/store/model"
	"github.com/rotahq/rota/internal/store/walk"
	"github.com/rotahq/rota/internal/story"
	"github.com/rotahq/rota/task"
)

// sessions that a connection is given in turn.
const pooledSessions = 3

// pooler gives every transaction of a connection another session, as PgBouncer does in transaction
// mode. It cares for nothing but the frames of messages:
// https://www.postgresql.org/docs/current/protocol-message-formats.html.
type pooler struct {
	net.Listener
	server string
	wg     sync.WaitGroup
}

// pooled makes a pooler, and the DSN that leads through it.
func pooled(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{Listener: l, server: u.Host}
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() {
				if err := p.serve(client); err != nil && !errors.Is(err, io.EOF) &&
					!errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.wg.Wait()
	})
	u.Host = l.Addr().String()
	return u.String()
}

// frame reads one message whole: its type, but for the first one of a connection, then its length,
// which counts itself.
func frame(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 64)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := len(head)
	m := append(head, make([]byte, binary.BigEndian.Uint32(head[n-4:])-4)...)
	_, err := io.ReadFull(r, m[n:])
	return m, err
}

func (p *pooler) serve(client net.Conn) error {
	defer client.Close()
	start, err := frame(client, false)
	if err != nil {
		return err
	}
	var sessions [pooledSessions]net.Conn
	for i := range sessions {
		if sessions[i], err = net.Dial("tcp", p.server); err != nil {
			return err
		}
		defer sessions[i].Close()
		if _, err := sessions[i].Write(start); err != nil {
			return err
		}
		for ready := false; !ready; {
			m, err := frame(sessions[i], true)
			if err != nil {
				return err
			}
			if ready = m[0] == 'Z'; i == 0 { // the client hears of one
				if _, err := client.Write(m); err != nil {
					return err
				}
			}
		}
	}
	var turn atomic.Int32
	var answers sync.WaitGroup
	for i, session := range sessions {
		answers.Go(func() {
			for {
				m, err := frame(session, true)
				if err != nil {
					return
				}
				if m[0] == 'Z' && m[5] == 'I' {
					// the transaction is over: the next one gets another session
					turn.Store(int32(i+1) % pooledSessions)
				}
				if _, err := client.Write(m); err != nil {
					return
				}
			}
		})
	}
	for err == nil {
		var m []byte
		if m, err = frame(client, true); err == nil {
			if m[0] == 'X' { // its connection ends, the sessions do not
				break
			}
			_, err = sessions[turn.Load()].Write(m)
		}
	}
	for _, session := range sessions {
		session.Close()
	}
	answers.Wait()
	return err
}

// The same seeds leave the same traces when no two transactions have the same session.
func TestPoolerInTransactionModeDoesNoHarm(t *testing.T) {
	story.Whole(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			clock, same := contract.NewClock(), contract.NewClock()
			s := open(t, Config{
				DSN: pooled(t, pgtest.Shared(t).Database(t)), Pooler: true, Now: clock.Now,
				Linger: -1, Partition: 2000 * time.Hour,
			})
			got, want := walk.Trace(seed, 40, s, clock),
				walk.Trace(seed, 40, model.New(same.Now), same)
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("line %d is\n%s\nbut the model's\n%s", i, got[i], want[i])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d lines, the model has %d", len(got), len(want))
			}
		})
	}
}

// Whatever a transaction begins with, it has the settings that sessions have without a pooler, and
// leaves the pooler's sessions as they are.
func TestPooledTransactionsHaveTheSettingsOfSessions(t *testing.T) {
	database := pgtest.Shared(t).Database(t)
	for name, conf := range map[string]Config{
		"direct": {DSN: database},
		"pooler": {DSN: pooled(t, database), Pooler: true},
	} {
		t.Run(name, func(t *testing.T) {
			conf.DSN += "&lock_timeout=7s"
			s := open(t, conf)
			want := maps.Clone(transactions)
			want["statement_timeout"] = "30s"
			want["lock_timeout"] = "7s"
			for setting, value := range want {
				var got []string
				show := ask("SELECT current_setting($1)", func(r row) error {
					got = append(got, "")
					return r.Scan(&got[len(got)-1])
				}, setting)
				twice := func(ctx context.Context, r runner) error {
					return errors.Join(r.run(ctx, show), r.run(ctx, show))
				}
				if err := errors.Join(s.glance(t.Context(), show), s.read(t.Context(), show),
					s.reading(t.Context(), twice),
					s.write(t.Context(), func(ctx context.Context, tx *tx) error {
						return tx.finish(ctx, show)
					}),
					s.write(t.Context(), func(ctx context.Context, tx *tx) error {
						return errors.Join(twice(ctx, tx), tx.finish(ctx))
					})); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, slices.Repeat([]string{value}, 7)) {
					t.Errorf("%s is %q, want %s", setting, got, value)
				}
			}
			if !conf.Pooler {
				return
			}
			conn, err := pgx.Connect(t.Context(), conf.DSN+"&default_query_exec_mode=exec")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			for range pooledSessions {
				var jit string
				if err := conn.QueryRow(t.Context(), "SELECT current_setting('jit')").
					Scan(&jit); err != nil || jit != "on" {
					t.Errorf("a session that others use: jit is %q, %v", jit, err)
				}
			}
		})
	}
}

// Without Pooler a statement that was prepared in one session is looked for in another: the test
// above would not pass by luck.
func TestPoolerHarmsThoseWhoDoNotKnowOfIt(t *testing.T) {
	s, err := Open(t.Context(), Config{
		DSN: pooled(t, pgtest.Shared(t).Database(t)), NoNotify: true,
	})
	if err == nil {
		err = errors.Join(s.Check(t.Context()), s.Check(t.Context()), s.Check(t.Context()),
			s.Close())
	}
	if err == nil {
		t.Error("nothing happened")
	}
}

// Large submissions go by several statements, through a pooler as well.
func TestLargeSubmissionIsWhole(t *testing.T) {
	story.Whole(t)
	for name, conf := range map[string]Config{"direct": {}, "pooler": {Pooler: true}} {
		t.Run(name, func(t *testing.T) {
			conf.DSN = pgtest.Shared(t).Database(t)
			if conf.Pooler {
				conf.DSN = pooled(t, conf.DSN)
			}
			c := join(t, open(t, conf))
			const many = 3*chunkTasks + 1
			b := c.batch(many, 1000, true)
			for i := range b.Tasks {
				k := &b.Tasks[i]
				k.Stage = []string{"first", "☃", ""}[i%3]
				k.Context = []store.Value{nil, {}, store.Value(fmt.Sprintf(`{"n":%d}`, i))}[i%3]
				k.GroupKey = []string{"", "g"}[i%2]
				k.MaxAttempts = int32(i % 4)
				k.Timeout = int64(i%5) * 1e9
				k.Meta = []store.Meta{"", `{"m":"☃"}`, "", "", `{"n":""}`}[i%5]
			}
			spans := c.submit(b)
			held := must(c.Held(t.Context(), c.holder, nil))(t)
			var got []store.Task
			for _, h := range held {
				for _, l := range h.Tasks {
					got = append(got, store.Task{
						N: l.N, Stage: l.Stage, Context: l.Context, MaxAttempts: l.MaxAttempts,
						Timeout: l.Timeout, Meta: l.Meta,
					})
				}
			}
			slices.SortFunc(got, func(a, b store.Task) int { return int(a.N - b.N) })
			if len(held) != len(spans) || len(got) != many {
				t.Fatalf("%d tasks in %d spans, want %d in %d", len(got), len(held), many,
					len(spans))
			}
			for i, want := range b.Tasks {
				want.GroupKey = ""
				if g := got[i]; fmt.Sprintf("%+v %v", g, g.Context == nil) != fmt.Sprintf("%+v %v",
					want, want.Context == nil) {
					t.Fatalf("task %d: got %+v, want %+v", i, g, want)
				}
			}
			if v := must(c.Task(t.Context(), task.ID{Batch: b.ID, N: 1}))(t); v.GroupKey != "g" {
				t.Errorf("group key: %q", v.GroupKey)
			}
		})
	}
}
