package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionCommand(a *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    `Print the version of this binary, the Go release it was built with, and the machine it is for.`,
		Example: `  rota version -o json`,
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			doc := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return a.Show(doc, func() string {
				return fmt.Sprintf("rota %s (%s, %s/%s)\n", doc.Version, doc.Go, doc.OS, doc.Arch)
			})
		},
	}
	a.addShared(cmd.Flags(), "output")
	return cmd
}
