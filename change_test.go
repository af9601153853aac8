package rota

import (
	"encoding/base64"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/internal/store"
)

// What two nodes change of the same configuration at the same instant, each another part of it, is
// all there afterwards.
func TestChangesAtTwoNodesAtOnceAreAllKept(t *testing.T) {
	nodes := members(t, Config{Store: pgtest.Shared(t).Database(t)}, "a", "b")
	a, b := speaks(t, nodes[0]), speaks(t, nodes[1])
	for round := range 20 {
		value, span := round+1, time.Duration(round+1)*time.Minute
		key := "whsec_" + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%024d", round))
		hook := client.NotifierConf{Kind: "webhook", On: []string{"none"}}
		if round == 0 {
			hook.URL = "https://example.com/"
		}
		called := client.HookConf{Scheme: "standard", Queue: "q"}
		turned := called
		turned.Secrets = []string{key}
		if round == 0 {
			called.Secrets = turned.Secrets
		}
		signed := hook
		signed.Secret = key
		both(t,
			func() error {
				return second(
					a.PutQueue(t.Context(), "q", client.QueueChange{Timeout: &span}),
				)
			},
			func() error {
				return second(
					b.PutQueue(t.Context(), "q", client.QueueChange{MaxAttempts: &value}),
				)
			},
			func() error {
				return second(
					a.PutGroup(t.Context(), "g", client.GroupChange{Replicas: &value}),
				)
			},
			func() error {
				return second(b.PutGroup(t.Context(), "g",
					client.GroupChange{Policy: &client.PolicyChange{Moves: &value}}))
			},
			func() error { return second(a.PutNotifier(t.Context(), "n", signed)) },
			func() error { return second(b.PutNotifier(t.Context(), "n", hook)) },
			func() error { return second(a.PutHook(t.Context(), "h", turned)) },
			func() error { return second(b.PutHook(t.Context(), "h", called)) },
		)
		for _, c := range []*client.Client{a, b} {
			q, err := c.Queue(t.Context(), "q")
			if err != nil || q.Timeout != span || q.MaxAttempts != value {
				t.Fatalf("round %d: the queue has timeout %v and %d attempts, %v", round, q.Timeout,
					q.MaxAttempts, err)
			}
		}
		g, err := a.PutGroup(t.Context(), "g", client.GroupChange{})
		if err != nil || g.Replicas != value || g.Policy.Moves != value {
			t.Fatalf("round %d: the group has %d replicas and %d moves, %v", round, g.Replicas,
				g.Policy.Moves, err)
		}
		list, err := nodes[1].store.Notifiers(t.Context())
		if err != nil || len(list) != 1 || list[0].Secrets.Key != store.Secret(key) {
			t.Fatalf("round %d: the notifier lost its key, %v", round, err)
		}
		hooks, err := nodes[1].store.Hooks(t.Context())
		if err != nil || len(hooks) != 1 || len(hooks[0].Secrets) != 1 ||
			hooks[0].Secrets[0] != store.Secret(key) {
			t.Fatalf("round %d: the hook lost its secret, %v", round, err)
		}
	}
}

// both does everything at once.
func both(t *testing.T, do ...func() error) {
	t.Helper()
	begin := make(chan struct{})
	var crowd sync.WaitGroup
	for _, f := range do {
		crowd.Go(func() {
			<-begin
			if err := f(); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	crowd.Wait()
}

func second[T any](_ T, err error) error { return err }
