package rota

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/pgtest"
	"github.com/rotahq/rota/task"
)

// A service that hears nothing sends again, and its balancer may lead that to another node: it is
// one task all the same.
func TestADeliveryThatComesToTwoNodesAtOnceIsOneTask(t *testing.T) {
	nodes := members(t, Config{Store: pgtest.Shared(t).Database(t)}, "a", "b")
	a, b := speaks(t, nodes[0]), speaks(t, nodes[1])
	const secret = "It's a Secret to Everybody"
	conf := client.HookConf{Scheme: "github", Secrets: []string{secret}, Queue: "builds"}
	if _, err := a.PutHook(t.Context(), "builds", conf); err != nil {
		t.Fatal(err)
	}
	call := client.HookCall{Secret: secret, Body: []byte(`{"ref":"main"}`)}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // real nodes
		_, err := b.CallHook(t.Context(), "builds", call)
		if err == nil {
			break
		}
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			t.Fatal(err)
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the other node does not know the hook: %v", err)
		}
	}
	for round := range 20 {
		call.ID = fmt.Sprint("delivery-", round)
		var mu sync.Mutex
		made := map[task.ID]int{}
		fresh := 0
		var crowd sync.WaitGroup
		for i := range 8 {
			crowd.Go(func() {
				got, err := []*client.Client{a, b}[i%2].CallHook(t.Context(), "builds", call)
				mu.Lock()
				defer mu.Unlock()
				if made[got.ID]++; err != nil {
					t.Error(err)
				} else if !got.Existing {
					fresh++
				}
			})
		}
		crowd.Wait()
		if len(made) != 1 || fresh != 1 {
			t.Errorf("round %d: %d of 8 calls say that the task is new, of %v", round, fresh, made)
		}
	}
	call.ID, call.Header = "", map[string]string{"X-GitHub-Delivery": "delivery-0"}
	if got, err := a.CallHook(t.Context(), "builds", call); err != nil || !got.Existing {
		t.Errorf("a delivery whose id its caller gives as a header: %+v, %v", got, err)
	}
}
