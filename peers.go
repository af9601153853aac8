package rota

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/store"
)

// forwardWithin is how long another node may take to answer a call that somebody waits for.
const forwardWithin = 2 * time.Second

// peers speaks to the other nodes of the cluster, by HTTP.
type peers struct {
	http  *http.Client
	pass  pass
	used  *usedPasses
	store string           // that nodes which can be peers work on, as /healthz names it
	now   func() time.Time // by the store's clock, which all nodes share
}

func newPeers(node string, key []byte, now func() time.Time) *peers {
	return &peers{
		http: &http.Client{
			Transport: &http.Transport{
				MaxIdleConnsPerHost: 1, IdleConnTimeout: 50 * time.Second, Proxy: nil,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		pass:  pass{node, key},
		used:  &usedPasses{},
		store: storeMark(key),
		now:   now,
	}
}

func (p *peers) close() { p.http.CloseIdleConnections() }

// storeMark is what a store is told from others by, where anybody may see it: of its key it says
// nothing.
func storeMark(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("store"))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// guardName is what the processes of one node of one store keep each other out by. Nobody can guess
// it who can't read the store.
func guardName(key []byte, node string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("guard\n" + node))
	return hex.EncodeToString(mac.Sum(nil))
}

// largestHealth is how much of an answer to a probe is read; it has far less.
const largestHealth = 4 << 10

// Probe asks a node whether it serves, and whether it is that node, of this store. Its answer is
// read to the end, so that the connection serves the next probe, too.
func (p *peers) Probe(ctx context.Context, name, address string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimRight(address, "/")+"/healthz", nil)
	if err != nil {
		return err
	}
	p.pass.show(q, name, nil, p.now()) // without one it does not say who it is
	response, err := p.http.Do(q)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestHealth))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	var health struct{ Node, Store string }
	if err := json.Unmarshal(body, &health); err != nil {
		return fmt.Errorf("what answers is no node: %w", err)
	}
	if health.Node == "" {
		return fmt.Errorf(
			"what answers at %s does not take this node's pass for %q: it is another node, or of another store",
			address, name,
		)
	}
	if health.Node != name || health.Store != p.store {
		return fmt.Errorf("node %q of store %s answers at %s", health.Node, health.Store, address)
	}
	return nil
}

// ask makes a call at another node, about that node only. Errors: store.ErrNotFound,
// store.ErrConflict, store.ErrAway.
func (p *peers) ask(
	ctx context.Context, n store.Node, call func(context.Context, *client.Client) error,
) error {
	if n.Address == "" {
		return fmt.Errorf("node %q says no address: %w", n.Name, store.ErrAway)
	}
	c, err := client.New(client.Config{
		Servers: []string{n.Address}, Fixed: true, Attempts: 1, Timeout: forwardWithin,
		HTTP: &http.Client{Transport: &passing{p, n.Name}, CheckRedirect: p.http.CheckRedirect},
	})
	if err != nil {
		return fmt.Errorf("ask node %q: %w: %w", n.Name, err, store.ErrAway)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, forwardWithin)
	defer cancel()
	switch err = call(ctx, c); {
	case errors.Is(err, client.ErrNotFound):
		return store.ErrNotFound
	case errors.Is(err, client.ErrConflict):
		return fmt.Errorf("ask node %q: %w: %w", n.Name, err, store.ErrConflict)
	case err != nil:
		return fmt.Errorf("ask node %q: %w: %w", n.Name, err, store.ErrAway)
	}
	return nil
}

// passing sends requests to a node with the pass for it, and about it only.
type passing struct {
	*peers
	node string
}

func (p *passing) RoundTrip(q *http.Request) (*http.Response, error) {
	var body []byte
	if q.Body != nil {
		defer q.Body.Close()
		var err error
		if body, err = io.ReadAll(q.Body); err != nil {
			return nil, err
		}
	}
	q = q.Clone(q.Context())
	query := q.URL.Query()
	query.Set("here", "true")
	q.URL.RawQuery = query.Encode()
	if q.Body != nil {
		q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		q.GetBody = nil // one pass, one call
	}
	p.pass.show(q, p.node, body, p.now())
	return p.http.Transport.RoundTrip(q)
}
