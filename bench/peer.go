package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

const (
	queue = "bench"
	lanes = 64 // handlers at a time, on both sides
)

// texts vary from task to task and don't compress, so that no side has it easier than with work of
// its users. They are the same on all sides and in all runs.
var texts = makeTexts(4096)

func makeTexts(n int) []string {
	luck := rand.NewChaCha8([32]byte{})
	list := make([]string, n)
	for i := range list {
		raw := make([]byte, 48)
		luck.Read(raw)
		list[i] = base64.RawURLEncoding.EncodeToString(raw)
	}
	return list
}

// payloads are the contexts of tasks: JSON documents of 100 bytes, which are mostly text.
var payloads = makePayloads()

func makePayloads() [][]byte {
	list := make([][]byte, len(texts))
	for i, text := range texts {
		list[i] = []byte(`{"benchmark":"life cycle","text":"` + text + `"}`)
	}
	return list
}

// turn gives out numbers of payloads, by many callers at a time.
type turn struct{ taken atomic.Uint64 }

// take is the first of the next n, which go round.
func (t *turn) take(n int) int {
	return int((t.taken.Add(uint64(n)) - uint64(n)) % uint64(len(texts)))
}

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

// library is a peer that programs may link, so that one process submits and works, without a
// server.
type library interface {
	// open works off tasks on the ground with handlers that do nothing but call handled, until the
	// submitter is closed.
	open(ctx context.Context, g ground, l load, handled func()) (submitter, error)
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
		return redisAsynq{fsync: "everysec"}, nil
	case "asynq-always":
		return redisAsynq{fsync: "always"}, nil
	case "river":
		return postgresRiver{}, nil
	}
	return nil, fmt.Errorf("no peer is named %q", name)
}
