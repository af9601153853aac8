package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rotahq/rota/internal/story"
)

// TestScheduleStories runs the scripts in testdata/schedule, whose server answers as the API's own
// stories say.
func TestScheduleStories(t *testing.T) {
	story.Whole(t)
	server := toldServer(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/schedule",
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TZ", "Europe/Berlin")
			e.Setenv("ROTA_SERVER", server)
			e.Setenv("ROTA_FIXED", "true")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}
