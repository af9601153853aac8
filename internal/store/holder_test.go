package store_test

import (
	"testing"

	"github.com/rotahq/rota/internal/store"
)

func TestNodesAreToldFromTheirStarts(t *testing.T) {
	for holder, want := range map[string]string{
		"n1": "n1", "n1@start": "n1", "a@b@start": "a@b", "a@b@": "a@b", "节点@start": "节点",
		"n1@start#7": "n1",
	} {
		if got := store.NodeOf(holder); got != want || store.MembershipOf(holder) != "node/"+want {
			t.Errorf("%q is a start of %q, want %q", holder, got, want)
		}
	}
}
