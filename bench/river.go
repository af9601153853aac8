package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// How River does best on two cores; README.md tells what else was tried.
const (
	// riverLanes is how many jobs the worker process runs at a time, which is also how many a fetch
	// may bring.
	riverLanes = 2000
	// riverPause is the shortest time between two fetches, and how long the worker waits for a
	// notification before it looks again.
	riverPause = 50 * time.Millisecond
	// riverConnections is how many the worker process may open: it fetches, finishes jobs and does
	// its chores at the same time.
	riverConnections = 10
)

// postgresRiver is River on PostgreSQL. It has no server: submitters and workers speak to the
// database.
type postgresRiver struct{}

func (postgresRiver) title(ctx context.Context) (string, error) {
	version, err := postgresVersion(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("River %s on PostgreSQL %s", moduleVersion("github.com/riverqueue/river"),
		version), nil
}

// server makes River's tables.
func (postgresRiver) server(ctx context.Context, g ground) ([]string, func(string) string, error) {
	pool, err := pgxpool.New(ctx, g.database.url())
	if err != nil {
		return nil, nil, err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Logger: riverLog(),
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, nil, fmt.Errorf("make River's tables: %w", err)
	}
	return nil, nil, nil
}

// riverLog shows errors only.
func riverLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// riverJob is what a job carries; as JSON it is one of payloads.
type riverJob struct {
	Benchmark string `json:"benchmark"`
	Text      string `json:"text"`
}

func (riverJob) Kind() string { return queue }

func riverPayload(i int) riverJob {
	return riverJob{Benchmark: "life cycle", Text: texts[i%len(texts)]}
}

// openRiver makes a client with connections of its own.
func openRiver(
	ctx context.Context, url string, connections int, c river.Config,
) (*river.Client[pgx.Tx], *pgxpool.Pool, error) {
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	conf.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, nil, err
	}
	c.Logger, c.FetchCooldown = riverLog(), riverPause
	client, err := river.NewClient(riverpgxv5.New(pool), &c)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return client, pool, nil
}

func (postgresRiver) connect(address string, l load) (submitter, error) {
	client, pool, err := openRiver(context.Background(), address, l.callers, river.Config{})
	if err != nil {
		return nil, err
	}
	return newInsertions(client, pool, l), nil
}

// open makes River's tables, and one client that inserts and works.
func (r postgresRiver) open(
	ctx context.Context, g ground, l load, handled func(),
) (submitter, error) {
	if _, _, err := r.server(ctx, g); err != nil {
		return nil, err
	}
	client, pool, err := openRiver(ctx, g.database.url(), l.callers+riverConnections,
		riverWork(handled))
	if err != nil {
		return nil, err
	}
	i := newInsertions(client, pool, l)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	i.stop = func() {
		stop()
		<-client.Stopped() // when what runs is finished
	}
	if err := client.Start(running); err != nil {
		stop()
		pool.Close()
		return nil, err
	}
	return i, nil
}

func newInsertions(client *river.Client[pgx.Tx], pool *pgxpool.Pool, l load) *insertions {
	i := &insertions{client: client, pool: pool, batch: l.batch, stop: func() {}}
	for n := range len(texts) + l.batch {
		i.jobs = append(i.jobs, river.InsertManyParams{
			Args: riverPayload(n), InsertOpts: &river.InsertOpts{Queue: queue},
		})
	}
	return i
}

// insertions hands jobs to River: one client, which has a connection for each caller.
type insertions struct {
	client *river.Client[pgx.Tx]
	pool   *pgxpool.Pool
	batch  int                      // jobs of a submission
	jobs   []river.InsertManyParams // with all payloads, and the first ones again
	turn   turn
	stop   func() // ends the work of the client, if it works
}

func (i *insertions) submit(ctx context.Context, _ int) (err error) {
	from := i.turn.take(i.batch)
	if jobs := i.jobs[from : from+i.batch]; i.batch == 1 {
		_, err = i.client.Insert(ctx, jobs[0].Args, jobs[0].InsertOpts)
	} else {
		_, err = i.client.InsertManyFast(ctx, jobs)
	}
	return err
}

// done asks first whether anything is left, for which River has an index: it counts jobs when
// nothing is.
func (i *insertions) done(ctx context.Context) (n int64, err error) {
	const left = "SELECT count(*) FROM river_job WHERE state IN ('available', 'pending', 'running', 'scheduled')"
	const ended = "SELECT count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state <> 'completed') FROM river_job"
	if err := i.pool.QueryRow(ctx, left).Scan(&n); err != nil {
		return 0, fmt.Errorf("count jobs that are left: %w", err)
	}
	if n > 0 {
		return 0, nil
	}
	var bad int64
	if err := i.pool.QueryRow(ctx, ended).Scan(&n, &bad); err != nil {
		return 0, fmt.Errorf("count jobs: %w", err)
	}
	if bad > 0 {
		return 0, fmt.Errorf("%d jobs failed", bad)
	}
	return n, nil
}

func (i *insertions) close() error {
	i.stop()
	i.pool.Close()
	return nil
}

// riverWork is how a client works: with handlers that do nothing but call handled.
func riverWork(handled func()) river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[riverJob]) error {
		handled()
		return nil
	}))
	return river.Config{
		Queues: map[string]river.QueueConfig{queue: {MaxWorkers: riverLanes}}, Workers: workers,
		FetchPollInterval: riverPause, JobTimeout: -1,
	}
}

func (postgresRiver) work(ctx context.Context, address string, handled func()) error {
	client, pool, err := openRiver(ctx, address, riverConnections, riverWork(handled))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-client.Stopped() // when ctx ends and what runs is finished
	return nil
}
