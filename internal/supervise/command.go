package supervise

import (
	"context"
	"errors"

	"github.com/rotahq/rota/internal/command"
)

// command runs a source's command and answers what it prints. It is killed with all that it started
// when it takes too long or says too much.
func (c Sources) command(ctx context.Context, argv []string) ([]byte, error) {
	if !c.Commands {
		return nil, errors.New(
			"this node runs no commands of sources: its operator has to allow it",
		)
	}
	text, _, err := command.Command{Argv: argv, Limit: c.Limit, TooLong: c.tooLong()}.Run(ctx)
	return text, err
}
