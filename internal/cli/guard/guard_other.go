//go:build !unix

package guard

import (
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/spf13/cobra"
)

// Guard does nothing: there are no process groups here.
type Guard struct{}

// Start starts nothing.
func Start() (*Guard, error) { return &Guard{}, nil }

// Write is part of worker.Leash.
func (*Guard) Write(p []byte) (int, error) { return len(p), nil }

// Close does nothing.
func (*Guard) Close() {}

// Command does nothing either.
func Command(*app.App) *cobra.Command {
	return &cobra.Command{Use: "guard", Hidden: true}
}
