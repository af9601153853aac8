package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/view"
)

// servers is where calls go: to one of them until it can't be reached, then to the next.
type servers struct {
	given []string // by Config, without a slash at the end

	mu   sync.Mutex
	list []string           // given, then those that were learned
	at   int                // the one in use
	next time.Time          // when it is time to ask for the nodes of the cluster
	quit context.CancelFunc // of asking; nil = nobody does

	// under way that may be made again elsewhere; none are noted while there is one server only
	calls map[*call]struct{}

	helper string // that answered last what the one in use could not; "" = none did
}

// call is one try of a call.
type call struct {
	server string
	cancel context.CancelCauseFunc
}

// errLeft ends calls at a server that did not answer another call.
var errLeft = errors.New("the server was left for another")

// use is the server in use.
func (s *servers) use() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[s.at]
}

// begin is use for a call that may be made again: it ends with errLeft when the server is left.
// done must be called after it.
func (s *servers) begin(cancel context.CancelCauseFunc) (server string, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server = s.list[s.at]
	c := &call{server, cancel}
	if s.calls == nil {
		s.calls = make(map[*call]struct{})
	}
	s.calls[c] = struct{}{}
	return server, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, c)
	}
}

func (s *servers) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

// others are at most so many servers but one, the last helper first, then those behind the one in
// use.
func (s *servers) others(but string, most int) (helper string, list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = slices.Concat(s.list[s.at:], s.list[:s.at])
	if i := slices.Index(list, s.helper); i > 0 {
		list = slices.Insert(slices.Delete(list, i, i+1), 0, s.helper)
	}
	list = slices.DeleteFunc(list, func(server string) bool { return server == but })
	return s.helper, list[:min(len(list), most)]
}

// helped remembers who answered what the server in use could not.
func (s *servers) helped(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.helper = server
}

// turn goes on to the server behind one that was of no use, unless another call has done so. What
// waits for an answer there need not wait any longer: a process that is stopped, and a machine that
// is off, answer no call, and end none.
func (s *servers) turn(from string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list[s.at] != from || len(s.list) == 1 {
		return
	}
	s.at = (s.at + 1) % len(s.list)
	for c := range s.calls {
		if c.server == from {
			c.cancel(errLeft)
		}
	}
}

// set replaces what was learned. The server in use stays in use.
func (s *servers) set(learned []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Concat(s.given, learned)
	used := s.list[s.at]
	if s.at = slices.Index(list, used); s.at < 0 {
		s.at = len(list)
		list = append(list, used)
	}
	s.list = list
}

// ask is the context to ask for the nodes with, when it is time to and nobody does; else nil.
func (s *servers) ask(now time.Time) (ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit == nil && !now.Before(s.next) {
		ctx, s.quit = context.WithTimeout(context.Background(), learnWithin)
	}
	return ctx
}

func (s *servers) asked(next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quit()
	s.quit, s.next = nil, next
}

// stop ends asking.
func (s *servers) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit != nil {
		s.quit()
	}
}

const (
	learnEvery  = time.Minute     // how often the nodes are asked for
	learnAgain  = 5 * time.Second // after it failed
	learnWithin = 5 * time.Second // until it failed
	maxLearned  = 32
)

// learnSometimes asks for the nodes of the cluster beside the calls that are made, so that a client
// without any costs nothing.
func (c *Client) learnSometimes(now time.Time) {
	if c.config.Fixed {
		return
	}
	ctx := c.servers.ask(now)
	if ctx == nil {
		return
	}
	c.flights.Go(func() {
		next := learnEvery
		if c.learn(ctx) != nil { // who calls finds out what is wrong
			next = learnAgain
		}
		c.servers.asked(time.Now().Add(next))
	})
}

// learn finds the nodes that the server in use knows and that answer here. They are used in another
// order by every client, so that the death of a node spreads its clients over the others.
func (c *Client) learn(ctx context.Context) error {
	a, err := c.try(ctx, c.servers.use(), request{
		method: http.MethodGet, path: "/v1/nodes", query: url.Values{"limit": {"1000"}},
	})
	if err != nil {
		return fmt.Errorf("ask for nodes: %w", err)
	}
	var nodes struct {
		Items []view.Node `json:"items"`
	}
	if err := json.Unmarshal(a.body, &nodes); err != nil {
		return fmt.Errorf("read nodes: %w", err)
	}
	if len(nodes.Items) == 0 { // a node that has not even seen itself
		return errors.New("ask for nodes: it knows none yet")
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	var learned []string
	for _, address := range c.candidates(nodes.Items) {
		group.Go(func() {
			if c.serves(ctx, address) {
				mu.Lock()
				defer mu.Unlock()
				learned = append(learned, address)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil && len(learned) == 0 {
		return ctx.Err()
	}
	rand.Shuffle(len(learned), func(i, j int) { learned[i], learned[j] = learned[j], learned[i] })
	c.servers.set(learned)
	return nil
}

// candidates are addresses of living nodes that calls may go to: the configured ones are known
// already, and a token that is sent to a server over TLS is never sent to another one without.
func (c *Client) candidates(nodes []view.Node) []string {
	guarded := slices.ContainsFunc(c.servers.given, func(s string) bool {
		return strings.HasPrefix(s, "https:")
	})
	var list []string
	for _, n := range nodes {
		address := strings.TrimRight(n.Address, "/")
		if n.State == view.NodeOffline || n.State == view.NodeUnreachable || address == "" ||
			checkServer(address) != nil {
			continue
		}
		if slices.Contains(c.servers.given, address) {
			continue
		}
		if guarded && !strings.HasPrefix(address, "https:") {
			continue
		}
		list = append(list, address)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) > maxLearned {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:maxLearned]
	}
	return list
}

// serves tells whether a rota server answers at an address; it is shown no token before that.
func (c *Client) serves(ctx context.Context, address string) bool {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/healthz", nil)
	if err != nil {
		return false
	}
	response, err := c.http.Do(q)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = readAll(response)
	return err == nil && response.StatusCode == http.StatusOK
}
