//go:build !unix

package cli

import (
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/spf13/cobra"
)

// guard does nothing: there are no process groups here.
type guard struct{}

// startGuard starts nothing.
func startGuard() (*guard, error) { return &guard{}, nil }

func (*guard) Write(p []byte) (int, error) { return len(p), nil }

func (*guard) close() {}

// workerGuard does nothing either.
func workerGuard(*app.App) *cobra.Command {
	return &cobra.Command{Use: "guard", Hidden: true}
}
