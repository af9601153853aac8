package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *App) version() *cobra.Command {
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
	cmd.Flags().AddFlag(a.shared.Lookup("output"))
	return cmd
}

// version is what the build recorded of itself: a release, or the revision it was built from.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v := "devel"
	for _, s := range build.Settings {
		switch {
		case s.Key == "vcs.revision":
			v += "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			v += "-dirty"
		}
	}
	return v
}
