package rota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
)

// watch notes who looks after which key, and that nobody does so beside another.
type watch struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]string // the node that looks after a key
	at map[string]int64  // the greatest token of a key
}

func newWatch(t *testing.T) *watch {
	return &watch{t: t, by: map[string]string{}, at: map[string]int64{}}
}

// look looks after a key for a node until it is to be given back.
func (w *watch) look(node string) func(context.Context, Claim) {
	return func(ctx context.Context, c Claim) {
		w.mu.Lock()
		if w.by[c.Key] != "" {
			w.t.Errorf("%s: %s and %s at a time", c.Key, w.by[c.Key], node)
		}
		if c.Kind != "box" || c.Token <= w.at[c.Key] {
			w.t.Errorf("%s of kind %q: token %d after %d", c.Key, c.Kind, c.Token, w.at[c.Key])
		}
		w.by[c.Key], w.at[c.Key] = node, c.Token
		w.mu.Unlock()
		<-ctx.Done()
		if c.Held().Err() != nil {
			w.t.Errorf("%s: nothing can be finished under it: %v", c.Key, context.Cause(c.Held()))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.by[c.Key] = ""
	}
}

// counts are how many keys each node looks after.
func (w *watch) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for _, node := range w.by {
		n[node]++
	}
	return n
}

func boxes(n int) func(context.Context) ([]string, error) {
	return func(context.Context) (keys []string, err error) {
		for i := range n {
			keys = append(keys, fmt.Sprintf("b%d", i), fmt.Sprintf("b%d", i)) // each once is meant
		}
		return keys, nil
	}
}

func TestKeysAreSharedOutAndComeBackWhenANodeStopsOrIsDrained(t *testing.T) {
	store, w := database(t), newWatch(t)
	nodes := map[string]*Node{}
	stops := map[string]func(){}
	for _, name := range []string{"a", "b"} {
		n, err := Open(t.Context(), Config{
			Store: store, Name: name, Listen: "127.0.0.1:0", Beat: 100 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Claim("box", boxes(6), w.look(name)); err != nil {
			t.Fatal(err)
		}
		nodes[name], stops[name] = n, running(t, n)
	}
	shared := func() bool { c := w.counts(); return c["a"] == 3 && c["b"] == 3 }
	settled(t, "the keys are shared out evenly", shared)

	c := speaks(t, nodes["a"])
	claims, err := c.Claims(t.Context(), client.ClaimFilter{})
	if err != nil || len(claims) != 6 || claims[0].Key != "box/b0" || claims[0].Token == 0 ||
		claims[0].Until.IsZero() || claims[0].Since.IsZero() {
		t.Errorf("claims %+v, %v", claims, err)
	}
	for _, claim := range claims {
		if claim.Owner != "a" && claim.Owner != "b" {
			t.Errorf("%s is looked after by %q", claim.Key, claim.Owner)
		}
	}
	token := claims[0].Token
	if err := c.ReleaseClaim(t.Context(), claims[0].Key); err != nil {
		t.Fatal(err)
	}
	settled(t, "a released key has another owner", func() bool {
		claims, err := c.Claims(t.Context(), client.ClaimFilter{})
		return err == nil && claims[0].Token > token && claims[0].Owner != ""
	})
	if err := c.DrainNode(t.Context(), "b", true); err != nil {
		t.Fatal(err)
	}
	settled(t, "the keys of a drained node are with the other", func() bool {
		return w.counts()["a"] == 6
	})
	if err := c.UndrainNode(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	settled(t, "b sees that it works again", func() bool { return nodes["b"].rounds.Working() })
	stops["a"]()
	settled(t, "the keys of a stopped node are with the other", func() bool {
		return w.counts()["b"] == 6
	})
}

func TestKindsThatCannotBeClaimedAreRefused(t *testing.T) {
	n := start(t, Config{Listen: "127.0.0.1:0"})
	c := speaks(t, n)
	settled(t, "the node runs", func() bool { _, err := c.Cluster(t.Context()); return err == nil })
	look := func(context.Context, Claim) {}
	if err := n.Claim("box", boxes(1), look); err == nil ||
		!strings.Contains(err.Error(), "runs already") {
		t.Errorf("while it runs: %v", err)
	}
	idle, err := Open(t.Context(), Config{Store: "sqlite:" + t.TempDir() + "/x.db", Name: "idle"})
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	for _, kind := range []string{"", "a box", "a/b", "schedule", "group"} {
		if err := idle.Claim(kind, boxes(1), look); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("claim %q", kind)) {
			t.Errorf("kind %q: %v", kind, err)
		}
	}
	for _, err := range []error{idle.Claim("box", nil, look), idle.Claim("box", boxes(1), nil)} {
		if err == nil {
			t.Error("claimed with nobody to ask or to look after it")
		}
	}
	if err := errors.Join(
		idle.Claim("box", boxes(1), look), idle.Claim("tray", boxes(1), look),
	); err != nil {
		t.Error(err)
	}
	if err := idle.Claim("box", boxes(1), look); err == nil {
		t.Error("one kind was claimed twice")
	}
}

func TestKeysAreNamedOnceAndWrongOnesChangeNothing(t *testing.T) {
	all := []string{"b", "a/ü", "b"}
	got, err := validKeys(all)
	if want := []string{"a/ü", "b"}; err != nil || !slices.Equal(got, want) || all[0] != "b" {
		t.Errorf("%q, %v; asked for %q", got, err, all)
	}
	if got, err := validKeys([]string{"a", "", "b\n", "c\x00", strings.Repeat("x", maxKey+1),
		strings.Repeat("x", maxKey)}); got != nil ||
		strings.Count(err.Error(), "must be 1 to 512 bytes") != 4 {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := validKeys(make([]string, 1000)); strings.Count(err.Error(), "\n") != 10 ||
		!strings.HasSuffix(err.Error(), "and 990 more") {
		t.Errorf("of very many: %v", err)
	}
}

func TestRescanAnswersWhenANewKeyIsLookedAfter(t *testing.T) {
	n, err := Open(t.Context(), Config{
		Store: "sqlite:" + t.TempDir() + "/x.db", Name: "n", Listen: "127.0.0.1:0",
		Beat: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys atomic.Int64
	list := func(ctx context.Context) ([]string, error) { return boxes(int(keys.Load()))(ctx) }
	if err := n.Claim("box", list, newWatch(t).look("n")); err != nil {
		t.Fatal(err)
	}
	running(t, n)
	c := speaks(t, n)
	for want := 1; want <= 3; want++ {
		keys.Add(1)
		if err := c.RescanClaims(t.Context()); err != nil {
			t.Fatal(err)
		}
		claims, err := c.Claims(t.Context(), client.ClaimFilter{})
		if err != nil || len(claims) != want || claims[want-1].Owner != "n" {
			t.Errorf("with %d keys: %+v, %v", want, claims, err)
		}
	}
}
