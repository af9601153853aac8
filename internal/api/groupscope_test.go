package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/rotahq/rota/internal/store"
)

// neighbours is a group that shares its workers with another one.
type neighbours struct {
	*fake
	workers int
}

func (n neighbours) budget() store.JobBudget {
	return store.JobBudget{
		Workers: n.workers, Weakest: []string{"w1"}, Groups: []string{"secret", "tails"},
		Text: "any worker can die with a place left for every replica of secret, tails",
	}
}

func (n neighbours) Groups(ctx context.Context) ([]store.GroupView, error) {
	list, err := n.fake.Groups(ctx)
	for i := range list {
		list[i].Budget = n.budget()
	}
	return list, err
}

func (n neighbours) Group(ctx context.Context, name string) (store.GroupView, error) {
	v, err := n.fake.Group(ctx, name)
	v.Budget = n.budget()
	return v, err
}

func (n neighbours) Plan(
	ctx context.Context, group string, what store.WhatIf,
) (store.Planned, error) {
	p, err := n.fake.Plan(ctx, group, what)
	p.Budget = n.budget()
	return p, err
}

// How many workers a group can lose depends on the groups that share them: a token with a scope
// learns the number, and not the names of those that it does not reach.
func TestBudgetNamesNoGroupOutOfScope(t *testing.T) {
	for workers, want := range map[int]string{
		0: "it is not certain that any worker", 1: "any one worker can", 7: "any 7 workers can",
	} {
		n := neighbours{newFake(), workers}
		a := newAPI(t, n.fake, func(c *Config) {
			c.Tokens, c.Groups, c.Placements = scoped(t), n, n
		})
		for call, body := range map[string]string{
			"GET /v1/groups": "", "GET /v1/groups/tails": "", "POST /v1/groups/tails/plan": `{}`,
		} {
			for token, all := range map[string]bool{"viewer-in": false, "admin-token": true} {
				response, text := ask(t, a, call, body, "Authorization: Bearer "+token)
				if response.StatusCode != http.StatusOK || !strings.Contains(text, `"tails"`) ||
					strings.Contains(text, "secret, tails") != all ||
					strings.Contains(text, `"secret"`) != all ||
					strings.Contains(text, want) == all {
					t.Errorf("%s by %s: %d %s", call, token, response.StatusCode, text)
				}
			}
		}
	}
}
