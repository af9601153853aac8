package cli

import (
	"fmt"
	"runtime"

	"github.com/rotahq/rota/internal/cli/app"
	"github.com/spf13/cobra"
)

func versionCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    `Print the version of this binary, the Go release it was built with, and the machine it is for.`,
		Example: `  rota version -o json`,
		Args:    app.Takes(),
		RunE: func(*cobra.Command, []string) error {
			doc := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{app.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return a.Show(doc, func() string {
				return fmt.Sprintf("rota %s (%s, %s/%s)\n", doc.Version, doc.Go, doc.OS, doc.Arch)
			})
		},
	}
	a.AddShared(cmd.Flags(), "output")
	return cmd
}
