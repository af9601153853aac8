package inbound

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/model"
)

const secret = "0123456789abcdef"

// counted is a store that counts how often hooks are listed, and may be away.
type counted struct {
	*model.Model
	lists atomic.Int32
	away  atomic.Bool
	slow  atomic.Bool
}

func (c *counted) Hooks(ctx context.Context) ([]store.Hook, error) {
	c.lists.Add(1)
	if c.away.Load() {
		return nil, store.ErrOutOfReach
	}
	list, err := c.Model.Hooks(ctx)
	if c.slow.Load() {
		time.Sleep(500 * time.Millisecond)
	}
	return list, err
}

func books(n int) (*counted, []*Book) {
	c := &counted{Model: model.New(time.Now)}
	list := make([]*Book, n)
	for i := range list {
		list[i] = New(c)
	}
	return c, list
}

func put(t *testing.T, b *Book, queue string) {
	t.Helper()
	h := store.Hook{
		Name: "h", Scheme: "github", Queue: queue, Secrets: []store.Secret{secret},
	}
	if _, err := b.PutHook(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

// queue is the queue of the hook as a book finds it, or why it does not.
func queue(b *Book) string {
	h, err := b.FindHook("h")
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "none"
	case err != nil:
		return err.Error()
	}
	return h.Queue
}

func TestAChangeHoldsHereAtOnceAndElsewhereWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, list := books(2)
		a, b := list[0], list[1]
		defer a.Close()
		defer b.Close()
		check := func(here, there string) {
			t.Helper()
			if got := queue(a) + " " + queue(b); got != here+" "+there {
				t.Errorf("they are %s, want %s %s", got, here, there)
			}
		}
		check("none", "none")
		put(t, a, "x")
		check("x", "none")
		time.Sleep(time.Second)
		check("x", "x")
		put(t, b, "y")
		check("x", "y")
		time.Sleep(time.Second)
		check("y", "y")
		if err := a.DeleteHook(t.Context(), "h"); err != nil {
			t.Fatal(err)
		}
		check("none", "y")
		time.Sleep(time.Second)
		check("none", "none")
	})
}

func TestManyCallsListTheHooksTwiceASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := books(1)
		b := list[0]
		defer b.Close()
		put(t, b, "x")
		c.lists.Store(0)
		for range 10 {
			var crowd sync.WaitGroup
			for i := range 100 {
				crowd.Go(func() {
					if _, err := b.FindHook(fmt.Sprint("guess", i)); err == nil {
						t.Error("a guess is right")
					}
				})
			}
			crowd.Wait()
			time.Sleep(200 * time.Millisecond)
		}
		if n := c.lists.Load(); n != 2 {
			t.Errorf("listed %d times in two seconds, want 2", n)
		}
	})
}

// A list that was asked for before a change does not have it in it.
func TestAChangeHoldsAtOnceThoughAListIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := books(1)
		b := list[0]
		defer b.Close()
		c.slow.Store(true)
		var first sync.WaitGroup
		first.Go(func() { queue(b) })
		time.Sleep(100 * time.Millisecond)
		put(t, b, "x")
		if got := queue(b); got != "x" {
			t.Errorf("it is %s", got)
		}
		first.Wait()
	})
}

func TestWithoutTheStoreNoHookIsFoundForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := books(1)
		b := list[0]
		defer b.Close()
		put(t, b, "x")
		queue(b)
		c.away.Store(true)
		if got := queue(b); got != "x" {
			t.Errorf("what was just known is %s", got)
		}
		time.Sleep(time.Second)
		if _, err := b.FindHook("h"); !errors.Is(err, store.ErrOutOfReach) {
			t.Errorf("got %v", err)
		}
		c.away.Store(false)
		if got := queue(b); got != "x" {
			t.Errorf("when it is back it is %s", got)
		}
	})
}

func TestSecretsThatAreLeftOutStay(t *testing.T) {
	_, list := books(1)
	b := list[0]
	defer b.Close()
	put(t, b, "x")
	changed, err := b.PutHook(t.Context(), store.Hook{Name: "h", Scheme: "github", Queue: "y"})
	if err != nil || len(changed.Is.Secrets) != 1 || changed.Is.Secrets[0] != secret {
		t.Errorf("%+v, %v", changed, err)
	}
	_, err = b.PutHook(t.Context(), store.Hook{Name: "h", Scheme: "shopify", Queue: "y"})
	if err == nil || !strings.Contains(err.Error(), "must be given again") {
		t.Errorf("another scheme with the same secrets: %v", err)
	}
}

func TestThereAreOnlySoManyHooks(t *testing.T) {
	c, list := books(1)
	b := list[0]
	defer b.Close()
	put(t, b, "x")
	for i := range maxHooks - 1 {
		if _, err := c.ChangeHook(t.Context(), fmt.Sprint("h", i),
			store.Whole(store.Hook{})); err != nil {
			t.Fatal(err)
		}
	}
	put(t, b, "y") // one that stands
	_, err := b.PutHook(t.Context(), store.Hook{
		Name: "more", Scheme: "github", Queue: "x", Secrets: []store.Secret{secret},
	})
	if err == nil || !strings.Contains(err.Error(), "1000 hooks already") {
		t.Errorf("one more: %v", err)
	}
}
