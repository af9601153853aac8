//go:build !unix

package guard

import (
	"errors"

	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/worker"
	"github.com/spf13/cobra"
)

// Guard does nothing: there are no process groups here.
type Guard struct{}

// Over starts nothing.
func Over(*worker.Leash) (*Guard, error) { return &Guard{}, nil }

// Close does nothing.
func (*Guard) Close() {}

// Command does nothing either.
func Command(*app.App) *cobra.Command {
	return &cobra.Command{Use: "guard", Hidden: true}
}

// Starts tells that no process is called to become a command here.
func Starts([]string) (command []string, it bool) { return nil, false }

// Become can't make this process another one here.
func Become([]string) error { return errors.ErrUnsupported }
