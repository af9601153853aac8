package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rotahq/rota/task"
)

// JobCommand is a handler of jobs that runs a command for each replica for as long as it is
// assigned to this worker.
//
// The job's spec is its standard input (null when there is none). ROTA_GROUP, ROTA_JOB and
// ROTA_REPLICA (from 0) tell what it is, ROTA_TOKEN is the assignment's token, and ROTA_FENCE the
// token's number alone: greater for every later assignment of the group, to fence what the command
// writes elsewhere. ROTA_ALIVE is a file: touching it is a sign as [Alive] gives one, and so is
// each line of output. An access token of the name ROTA_TOKEN in Env is not passed on.
//
// A command that ends by itself, whatever its exit code, has failed: it is started again after a
// pause, as [JobHandler] says. Output, process group, SIGTERM and SIGKILL are as for a [Command] of
// tasks.
func JobCommand(c CommandConfig) (JobHandler, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure command: %w", err)
	}
	return c.runJob, nil
}

func (c CommandConfig) runJob(ctx context.Context, a task.Assignment) error {
	dir, err := os.MkdirTemp("", "rota-job-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	sign := filepath.Join(dir, "alive")
	if err := os.WriteFile(sign, nil, 0o600); err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	defer touchable(ctx, sign)()
	_, why := c.run(ctx, dir, a.Spec, "ROTA_GROUP="+a.Group, "ROTA_JOB="+a.Job,
		"ROTA_ALIVE="+sign,
		"ROTA_REPLICA="+strconv.Itoa(a.Replica),
		"ROTA_TOKEN="+a.Token.String(), "ROTA_FENCE="+strconv.FormatInt(a.Token.Number, 10))
	return why
}
