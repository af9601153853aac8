package app

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rotahq/rota/client"
)

func TestOnlyWhatMayPassIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{client.ErrUnreachable, true},
		{fmt.Errorf("read: %w", errors.New("connection reset by peer")), true},
		{&client.Error{Status: 503}, true},
		{&client.Error{Status: 429}, true},
		{&client.Error{Status: 404}, false},
		{&client.Error{Status: 401}, false},
		{fmt.Errorf("read task: %w", &client.Error{Status: 403}), false},
	} {
		if got := Passes(c.err); got != c.want {
			t.Errorf("passes(%v) = %v", c.err, got)
		}
	}
}
