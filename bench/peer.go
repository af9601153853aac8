package main

import (
	"context"
	"fmt"
	"strings"
)

const (
	queue = "bench"
	lanes = 64 // handlers at a time, on both sides
)

// payload is the context of every task: a JSON document of 100 bytes, which are mostly text.
var (
	payload = []byte(`{"benchmark":"life cycle","text":"` + text + `"}`)
	text    = strings.Repeat("0", 64)
)

// ground is what a run stands on. All of it is empty when the run begins, and goes after it.
type ground struct {
	folder string // for files
	// in PostgreSQL, which both sides of a row share; nil = the row is not about it
	database *database
}

// peer is one side of the comparison: how its server is started, how tasks are submitted, how a
// worker works.
type peer interface {
	// title says what is compared, with versions. What has to be installed and isn't is an error.
	title(ctx context.Context) (string, error)
	// server prepares the ground, and is the command that serves on a free loopback port and keeps
	// all that it has on the ground. In one of the lines that it prints, address finds where.
	// Without a command the database itself serves.
	server(ctx context.Context, g ground) (command []string, address func(line string) string,
		err error)
	// connect opens the connections of a load's callers.
	connect(address string, l load) (submitter, error)
	// work runs handlers that do nothing but call handled, until ctx ends.
	work(ctx context.Context, address string, handled func()) error
}

// submitter hands tasks in and asks after them.
type submitter interface {
	// submit makes one submission for a caller, which has one under way at a time, and returns when
	// it is answered.
	submit(ctx context.Context, caller int) error
	// done is how many tasks are finished by the server's own books. A task that failed is an
	// error.
	done(ctx context.Context) (int64, error)
	close() error
}

// peerNamed finds a peer; the binary of rota's server is needed where one is started.
func peerNamed(name, binary string) (peer, error) {
	switch name {
	case "rota":
		return rota{binary}, nil
	case "asynq":
		return redisAsynq{}, nil
	case "river":
		return postgresRiver{}, nil
	}
	return nil, fmt.Errorf("no peer is named %q", name)
}
