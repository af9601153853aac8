package app

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rotahq/rota/client"
)

type color string

func TestFlagThatIsGivenPointsAtItsValue(t *testing.T) {
	type change struct {
		wait  *time.Duration
		title *string
		color *color
		fair  *bool
	}
	shown := func(c change) (text string) {
		if c.wait != nil {
			text += fmt.Sprint("wait ", *c.wait, " ")
		}
		if c.title != nil {
			text += fmt.Sprintf("title %q ", *c.title)
		}
		if c.color != nil {
			text += fmt.Sprint("color ", *c.color, " ")
		}
		if c.fair != nil {
			text += fmt.Sprint("fair ", *c.fair, " ")
		}
		return text
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--wait", "0s", "--title", ""}, `wait 0s title "" `},
		{[]string{"--color", "red", "--fair=false"}, "color red fair false "},
		{[]string{"--wait", "90s", "--fair"}, "wait 1m30s fair true "},
	} {
		var c change
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		Optional(f, f.Duration, &c.wait, "wait", "so long")
		Optional(f, f.Bool, &c.fair, "fair", "in turns")
		Optional(f, Word[color](f), &c.color, "color", "a word")
		TitleFlag(f, &c.title)
		if err := f.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		if got := shown(c); got != test.want {
			t.Errorf("%q: %q, want %q", test.args, got, test.want)
		}
	}
}

func TestSetWithoutAChangeCreatesNothing(t *testing.T) {
	type change struct{ size *int }
	there := map[string]int{"mail": 3}
	s := Setting[change, int]{
		Kind: "queue", Creates: "a size creates it",
		Read: func(_ context.Context, name string) (int, error) {
			size, ok := there[name]
			if !ok {
				return 0, client.ErrNotFound
			}
			return size, nil
		},
		Put: func(_ context.Context, name string, c change) (int, error) {
			there[name] = *c.size
			return *c.size, nil
		},
	}
	if got, err := s.Apply(t.Context(), "mail", change{}); got != 3 || err != nil {
		t.Errorf("read %d, %v", got, err)
	}
	_, err := s.Apply(t.Context(), "mial", change{})
	if !errors.Is(err, client.ErrNotFound) || len(there) != 1 {
		t.Errorf("a slip in the name: %v, %v", err, there)
	}
	if got, err := s.Apply(t.Context(), "news", change{new(0)}); got != 0 || err != nil {
		t.Errorf("put %d, %v", got, err)
	}
	if len(there) != 2 {
		t.Errorf("a change did not create what is new: %v", there)
	}
}
