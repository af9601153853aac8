// Package peers speaks to the other nodes of a cluster: it asks whether they serve, makes calls at
// them about what only they know, and knows calls that they make here by their passes (package
// pass). What is asked of another node is about that node only, so that no call goes round; it has
// two seconds to answer, and a node that does not is named, not waited for.
package peers

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
	"github.com/rotahq/rota/internal/pass"
	"github.com/rotahq/rota/internal/store"
)

// Within is how long another node may take to answer a call that somebody waits for.
const Within = 2 * time.Second

// Config of peers. All of it is needed.
type Config struct {
	Node string           // this one's name
	Key  []byte           // of the store, that only its nodes can read
	Now  func() time.Time // by the store's clock, which all nodes share
}

// Peers speaks to the other nodes of the cluster, by HTTP. All methods may be called at the same
// time.
type Peers struct {
	http *http.Client
	conf Config
	pass pass.Pass
	used pass.Used
}

// New makes peers of a node.
func New(conf Config) *Peers {
	return &Peers{
		http: &http.Client{
			Transport: &http.Transport{
				MaxIdleConnsPerHost: 1, IdleConnTimeout: 50 * time.Second, Proxy: nil,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		conf: conf,
		pass: pass.Pass{Node: conf.Node, Key: conf.Key},
	}
}

// Close ends the connections to other nodes.
func (p *Peers) Close() { p.http.CloseIdleConnections() }

// StoreMark is what a store is told from others by, where anybody may see it: of its key it says
// nothing.
func StoreMark(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("store"))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// GuardName is what the processes of one node of one store keep each other out by. Nobody can guess
// it who can't read the store.
func GuardName(key []byte, node string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("guard\n" + node))
	return hex.EncodeToString(mac.Sum(nil))
}

// largestHealth is how much of an answer to a probe is read; it has far less.
const largestHealth = 4 << 10

// Probe asks a node whether it serves, and whether it is that node, of this store. Its answer is
// read to the end, so that the connection serves the next probe, too.
func (p *Peers) Probe(ctx context.Context, name, address string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimRight(address, "/")+"/healthz", nil)
	if err != nil {
		return err
	}
	p.pass.Show(q, name, nil, p.conf.Now()) // without one it does not say who it is
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
	if health.Node != name || health.Store != StoreMark(p.conf.Key) {
		return fmt.Errorf("node %q of store %s answers at %s", health.Node, health.Store, address)
	}
	return nil
}

// Ask makes a call at another node, about that node only. Errors: store.ErrNotFound,
// store.ErrConflict, store.ErrAway.
func (p *Peers) Ask(
	ctx context.Context, n store.Node, call func(context.Context, *client.Client) error,
) error {
	if n.Address == "" {
		return fmt.Errorf("node %q says no address: %w", n.Name, store.ErrAway)
	}
	c, err := client.New(client.Config{
		Servers: []string{n.Address}, Fixed: true, Attempts: 1, Timeout: Within, HTTPOnly: true,
		HTTP: &http.Client{Transport: &passing{p, n.Name}, CheckRedirect: p.http.CheckRedirect},
	})
	if err != nil {
		return fmt.Errorf("ask node %q: %w: %w", n.Name, err, store.ErrAway)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, Within)
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
	*Peers
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
	p.pass.Show(q, p.node, body, p.conf.Now())
	return p.http.Transport.RoundTrip(q)
}

// Caller names the node that made a call, if its pass is good and comes for the first time.
func (p *Peers) Caller(r *http.Request) (node string, ok bool) {
	node, mac, ok := p.pass.Check(r, p.conf.Now())
	if !ok || !p.used.First(mac, time.Now()) {
		return "", false
	}
	return node, true
}
