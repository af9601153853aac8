package rota

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/inprocess"
	"github.com/rotahq/rota/internal/peers"
)

// door is the node's API. It is built when somebody needs it first: that takes some 20 ms, and a
// program that only submits and handles tasks does without.
type door struct {
	build func(api.Tokens) (*api.API, error)

	mu     sync.Mutex
	tokens api.Tokens // for the API to begin with
	api    *api.API   // nil = not built yet
	closed bool       // it is built no more
}

// errClosed answers calls of the API of a node that was closed before anybody needed one.
var errClosed = fmt.Errorf("the node is closed: %w", ErrUnavailable)

// open is the API.
func (d *door) open() (*api.API, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.api != nil || d.closed {
		if d.api == nil {
			return nil, errClosed
		}
		return d.api, nil
	}
	a, err := d.build(d.tokens)
	if err != nil {
		return nil, fmt.Errorf("build API: %w", err)
	}
	d.api = a
	return a, nil
}

// setTokens lets others in than before.
func (d *door) setTokens(t api.Tokens) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tokens = t; d.api == nil {
		return nil
	}
	return d.api.SetTokens(t)
}

// goesBy is whom it lets in.
func (d *door) goesBy() api.Tokens {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tokens
}

// close ends streams, and tells what was summed up of changes. What was built goes on to answer,
// as long as the rest of the node does.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.api != nil {
		d.api.Close()
	}
}

// through answers calls by one of the API's handlers.
func (d *door) through(handler func(*api.API) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := d.open()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		handler(a).ServeHTTP(w, r)
	})
}

// ownClient is where a node's own client sends its calls, which never leave the process. A node's
// name need not be one of a host.
const ownClient = "http://node"

// openDoor readies the API, for this process and for the address on which the node listens.
// A node that is opened again goes by the tokens that it had: the file may be wrong by now.
func (n *Node) openDoor(before *Node) (err error) {
	var tokens api.Tokens
	if before != nil {
		tokens = before.door.goesBy()
	} else if tokens, err = readTokens(n.conf.TokenFile); err != nil {
		return err
	}
	n.door = &door{build: n.newAPI, tokens: tokens}
	n.Client, err = client.New(client.Config{
		Servers: []string{ownClient}, Fixed: true, Attempts: 1, HTTPOnly: true,
		HTTP: &http.Client{Transport: inprocess.New(n.door.through((*api.API).Inside))},
	})
	if err != nil || n.listen == nil {
		return err
	}
	a, err := n.door.open()
	if err != nil {
		return err
	}
	n.server = a.Server()
	return nil
}

func (n *Node) newAPI(tokens api.Tokens) (*api.API, error) {
	return api.New(api.Config{
		Engine: n.tasks, Events: n.store, History: n.store, Notifiers: n.sender, Hooks: n.hooks,
		Forecasts: n.forecasts,
		Secret:    n.store.Secret(),
		Cluster:   newCluster(n),
		Groups:    n.jobs, Jobs: n.jobs, Placements: n.jobs,
		Drains:    n.drains(),
		Schedules: n.firer, Fires: n.firer, Almanac: n.firer, Tokens: tokens,
		AnyHost: n.conf.Insecure, Peer: n.peers.Caller,
		Node: n.conf.Name, StoreMark: peers.StoreMark(n.store.PeerKey()), Version: n.conf.Version,
		Ready:      n.ready,
		StoreClock: n.storeClock, Reach: n.rounds.Reach, Tell: n.outbox.Add, Log: n.log,
		Retention: n.store.Retention, Logs: n.logs,
		Collectors: n.meter.Collectors(),
	})
}

// Handler serves the API inside another server of this program, for as long as Run goes on:
//
//	mux.Handle("/rota/", http.StripPrefix("/rota", node.Handler()))
//
// Config.TokenFile says who may call. Without one everybody may who names this machine as
// localhost, as with Config.Listen; with Config.Insecure whoever reaches the server.
func (n *Node) Handler() http.Handler { return n.door.through((*api.API).Handler) }

// Collector has the node's metrics shown by a registry of the program's own:
//
//	prometheus.MustRegister(node.Collector())
//
// They are those of /metrics but for what is the process's, which most registries have already.
func (n *Node) Collector() prometheus.Collector { return collector{n.door} }

// collector asks the API for its metrics when they are collected.
type collector struct{ door *door }

// Describe says nothing: which metrics there are depends on the queues.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect hands the metrics over.
func (c collector) Collect(to chan<- prometheus.Metric) {
	if a, err := c.door.open(); err == nil { // a closed node has none; the program's others stay
		a.Collector().Collect(to)
	} else if !errors.Is(err, errClosed) {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
}

// ReadTokens reads Config.TokenFile again: the node goes by what stands there from the next call
// on. When anything is wrong with the file the node keeps the tokens that it has.
func (n *Node) ReadTokens() error {
	if n.conf.TokenFile == "" {
		return errors.New("read access tokens: this node has none")
	}
	tokens, err := readTokens(n.conf.TokenFile)
	if err != nil {
		return err
	}
	return n.door.setTokens(tokens)
}

func readTokens(name string) (api.Tokens, error) {
	if name == "" {
		return api.Tokens{}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return api.Tokens{}, fmt.Errorf("open token file: %w", err)
	}
	defer f.Close()
	if err := keptSecret(f); err != nil {
		return api.Tokens{}, fmt.Errorf("token file %q: %w", name, err)
	}
	tokens, err := api.ParseTokens(f)
	if err == nil {
		err = tokens.Check()
	}
	if err != nil {
		return api.Tokens{}, fmt.Errorf("token file %q: %w", name, err)
	}
	return tokens, nil
}

// keptSecret refuses a file of secrets that everybody on this machine may read, or others than its
// owner may write.
func keptSecret(f *os.File) error {
	info, err := f.Stat()
	if err != nil || runtime.GOOS == "windows" { // where permissions are not these
		return err
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o004 != 0:
		return fmt.Errorf(
			"everybody on this machine may read it (mode %04o); mend it with: chmod 600 %s", mode,
			f.Name(),
		)
	case mode&0o022 != 0:
		return fmt.Errorf(
			"others than its owner may write it (mode %04o); mend it with: chmod 600 %s", mode,
			f.Name(),
		)
	}
	return nil
}
