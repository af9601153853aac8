//go:build chaos && unix

package chaos

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"
)

var (
	runFor    = flag.Duration("for", 2*time.Minute, "how long faults in pairs go on")
	failovers = flag.Int("failovers", 10, "how often the database fails over")
	seed      = flag.Uint64("seed", 0, "of what goes wrong, when; 0 = another one each time")
)

// What a child process of the tests is to be, and to know, stands in its environment.
const (
	envRole    = "CHAOS_ROLE" // roleWorker, roleCommand; else it runs tests
	envLedger  = "CHAOS_LEDGER"
	envName    = "CHAOS_NAME"
	envServers = "CHAOS_SERVERS"

	roleWorker  = "worker"  // a worker of the Go library
	roleCommand = "command" // what `rota worker` starts for a task
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of nodes and workers in this process
	var err error
	switch role := os.Getenv(envRole); role {
	case "":
		os.Exit(m.Run())
	case roleWorker:
		err = beWorker()
	case roleCommand:
		err = beCommand()
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
