package rota

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/api"
	"github.com/rotahq/rota/internal/rows"
	"github.com/rotahq/rota/task"
)

// forwardWithin is how long another node may take to answer a call that somebody waits for.
const forwardWithin = 2 * time.Second

// peers speaks to the other nodes of the cluster, by HTTP.
type peers struct {
	http  *http.Client
	pass  pass
	store string           // that nodes which can be peers work on, as /healthz names it
	now   func() time.Time // by the store's clock, which all nodes share
}

func newPeers(node string, key []byte, now func() time.Time) *peers {
	return &peers{
		http: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 50 * time.Second, Proxy: nil},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		pass:  pass{node, key},
		store: storeMark(key),
		now:   now,
	}
}

func (p *peers) close() { p.http.CloseIdleConnections() }

// storeMark is what a store is told from others by, where anybody may see it: of its key it says nothing.
func storeMark(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("store"))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// largestHealth is how much of an answer to a probe is read; it has far less.
const largestHealth = 4 << 10

// Probe asks a node whether it serves, and whether it is that node, of this store. Its answer is read to the end, so that the connection
// serves the next probe, too.
func (p *peers) Probe(ctx context.Context, name, address string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(address, "/")+"/healthz", nil)
	if err != nil {
		return err
	}
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
	if health.Node != "" && (health.Node != name || health.Store != p.store) { // one of before says neither
		return fmt.Errorf("node %q of store %s answers at %s", health.Node, health.Store, address)
	}
	return nil
}

// ask makes a call at another node, about that node only. Errors: rows.ErrNotFound, rows.ErrConflict, rows.ErrAway.
func (p *peers) ask(ctx context.Context, n rows.Node, call func(context.Context, *client.Client) error) error {
	if n.Address == "" {
		return fmt.Errorf("node %q says no address: %w", n.Name, rows.ErrAway)
	}
	c, err := client.New(client.Config{
		Servers: []string{n.Address}, Fixed: true, Attempts: 1, Timeout: forwardWithin,
		HTTP: &http.Client{Transport: &passing{p, n.Name}, CheckRedirect: p.http.CheckRedirect},
	})
	if err != nil {
		return fmt.Errorf("ask node %q: %w: %w", n.Name, err, rows.ErrAway)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, forwardWithin)
	defer cancel()
	switch err = call(ctx, c); {
	case errors.Is(err, client.ErrNotFound):
		return rows.ErrNotFound
	case errors.Is(err, client.ErrConflict):
		return fmt.Errorf("ask node %q: %w: %w", n.Name, err, rows.ErrConflict)
	case err != nil:
		return fmt.Errorf("ask node %q: %w: %w", n.Name, err, rows.ErrAway)
	}
	return nil
}

// passing sends requests to a node with the pass for it, and about it only.
type passing struct {
	*peers
	node string
}

func (p *passing) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	query := q.URL.Query()
	query.Set("here", "true")
	q.URL.RawQuery = query.Encode()
	p.pass.show(q, p.node, p.now())
	return p.http.Transport.RoundTrip(q)
}

// passWindow is how long a call may be on its way, and how far the store's clock may jump meanwhile.
const passWindow = time.Minute

// pass is what nodes know each other by where callers need access tokens: a call carries its sender's name, the time, and a MAC of
// them, of the call and of the name of the node that it is for, made with the store's key for it. So only nodes of the store can make
// one, it is good for that call at that node, and not for longer than passWindow.
type pass struct {
	node string
	key  []byte
}

// show puts the pass for a call at a node into its header.
func (p pass) show(q *http.Request, at string, now time.Time) {
	stamp := strconv.FormatInt(now.UnixMilli(), 10)
	mac := p.mac(p.node, at, stamp, q.Method, q.URL.RequestURI())
	q.Header.Set("Authorization", strings.Join([]string{api.NodeScheme, p.node, stamp, base64.RawURLEncoding.EncodeToString(mac)}, " "))
}

// check names the node that made a call, by the pass in its header.
func (p pass) check(r *http.Request, now time.Time) (node string, ok bool) {
	words := strings.Split(r.Header.Get("Authorization"), " ")
	if len(words) != 4 || words[0] != api.NodeScheme || !task.ValidName(words[1]) {
		return "", false
	}
	mac, err := base64.RawURLEncoding.DecodeString(words[3])
	if err != nil || !hmac.Equal(mac, p.mac(words[1], p.node, words[2], r.Method, r.RequestURI)) {
		return "", false
	}
	stamp, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || now.Sub(time.UnixMilli(stamp)).Abs() > passWindow {
		return "", false
	}
	return words[1], true
}

func (p pass) mac(words ...string) []byte {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(strings.Join(words, "\n"))) // none of them has a line break
	return mac.Sum(nil)
}
