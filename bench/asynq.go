package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// How Asynq does best on two cores; README.md tells what else was tried.
const (
	// asynqServers share the lanes of the worker process. One takes tasks out of Redis one after
	// the other, each in a round trip.
	asynqServers = 16
	// asynqIdle is how long a server that found the queue empty sleeps, about.
	asynqIdle = 2 * time.Millisecond
)

// redisAsynq is Asynq on Redis, which writes every change to its log.
type redisAsynq struct {
	// when Redis syncs its log: "everysec", or "always", before it answers, as rota does
	fsync string
}

// redisServer is the program that Asynq stands on.
func redisServer() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("find Redis: %w; install it with: apt-get install redis-server", err)
	}
	return path, nil
}

func (a redisAsynq) title(ctx context.Context) (string, error) {
	redis, err := redisServer()
	if err != nil {
		return "", err
	}
	line, err := firstLine(ctx, redis, "--version") // Redis server v=7.0.15 sha=…
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(line, "v=")
	version, _, _ = strings.Cut(version, " ")
	title := fmt.Sprintf("Asynq %s on Redis %s", moduleVersion("github.com/hibiken/asynq"), version)
	if a.fsync == "always" {
		title += " with appendfsync always"
	}
	return title, nil
}

func (a redisAsynq) server(_ context.Context, g ground) ([]string, func(string) string, error) {
	redis, err := redisServer()
	if err != nil {
		return nil, nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	command := []string{
		redis, "--bind", "127.0.0.1", "--port", port, "--dir", g.folder, "--daemonize", "no",
		"--save", "",
		"--appendonly", "yes", "--appendfsync", a.fsync, "--auto-aof-rewrite-percentage", "0",
	}
	return command, func(line string) string {
		if strings.Contains(line, "Ready to accept connections") {
			return net.JoinHostPort("127.0.0.1", port)
		}
		return ""
	}, nil
}

// freePort is a port that was free a moment ago: neither Redis nor PostgreSQL can choose one by
// itself.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func (redisAsynq) connect(address string, l load) (submitter, error) {
	if l.batch != 1 {
		return nil, fmt.Errorf("submit %d tasks at a time: Asynq takes one", l.batch)
	}
	opt := asynq.RedisClientOpt{Addr: address, PoolSize: l.callers}
	return &enqueuer{client: asynq.NewClient(opt), inspector: asynq.NewInspector(opt)}, nil
}

// enqueuer submits to Asynq: one client, which has a connection for each caller.
type enqueuer struct {
	client    *asynq.Client
	inspector *asynq.Inspector
	turn      turn
}

func (e *enqueuer) submit(ctx context.Context, _ int) error {
	t := asynq.NewTask(queue, payloads[e.turn.take(1)])
	_, err := e.client.EnqueueContext(ctx, t, asynq.Queue(queue), asynq.MaxRetry(0))
	return err
}

func (e *enqueuer) done(context.Context) (int64, error) {
	q, err := e.inspector.GetQueueInfo(queue)
	if err != nil {
		return 0, fmt.Errorf("read queue: %w", err)
	}
	if bad := q.FailedTotal + q.Retry + q.Archived; bad > 0 {
		return 0, fmt.Errorf("%d tasks failed", bad)
	}
	return int64(q.ProcessedTotal), nil
}

func (e *enqueuer) close() error { return errors.Join(e.client.Close(), e.inspector.Close()) }

func (redisAsynq) work(ctx context.Context, address string, handled func()) error {
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		handled()
		return nil
	})
	for range asynqServers {
		server := asynq.NewServer(asynq.RedisClientOpt{Addr: address, PoolSize: lanes},
			asynq.Config{
				Concurrency: lanes / asynqServers, Queues: map[string]int{queue: 1},
				TaskCheckInterval: asynqIdle, LogLevel: asynq.ErrorLevel,
			})
		if err := server.Start(handler); err != nil {
			return err
		}
		defer server.Shutdown()
	}
	<-ctx.Done()
	return nil
}
