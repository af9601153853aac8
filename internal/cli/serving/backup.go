package serving

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/rotahq/rota/client"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/store/sqlite"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

// backupView is a backup in JSON.
type backupView struct {
	File    string     `json:"file"`
	Time    term.Stamp `json:"time"`
	Bytes   int64      `json:"bytes"`
	Commits int64      `json:"commits"`
	Values  int64      `json:"values"`
	Missing int64      `json:"missing"`
}

func (a commands) backup() *cobra.Command {
	var store, folder string
	var replace bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy a SQLite store into a file, while it is in use",
		Long: `Copy the store of a node on SQLite into one file, with the large contexts that stand in
its folder. The node may run meanwhile, and take writes: the command reads the store's
files beside it, on the same machine and as the same user; it works on a stopped one, too.

FILE has one moment of the store. It appears when it is written, fsynced, and opened and
read again; Ctrl-C leaves nothing. It takes as long as reading the store once, and so long
the store's log grows by what is written. A store that is damaged, or whose log is lost,
gives no backup. Make a store of FILE with rota restore.

A store on PostgreSQL is backed up with the tools of PostgreSQL: docs/backup.md says how.`,
		Example: `  rota backup /backup/rota-$(date +%F).db --store sqlite:/var/lib/rota/rota.db
  rota backup latest.db --replace`,
		Args: app.Takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := embeddedStore(store)
			if err != nil {
				return err
			}
			if err := exists(path); err != nil {
				return err
			}
			p := a.Progress()
			b := sqlite.Backup{
				Path: path, Folder: folder, File: args[0], Replace: replace, Progress: a.copying(p),
			}
			done, err := b.Write(cmd.Context(), a.Now)
			p.Clear()
			if err != nil {
				return a.toldToReplace(cmd.Context(), err)
			}
			view := backupView{
				args[0], term.Stamp(done.Time), done.Bytes, done.Commits, done.Values, done.Missing,
			}
			if err := a.Show(view, func() string {
				s := term.Sheet{Indent: 12}
				s.Line("backup",
					fmt.Sprintf("%s, %s", term.Bold(term.OneLine(args[0])),
						term.Bytes(uint64(done.Bytes))))
				s.Line("as of", done.Time.Format(time.RFC3339))
				s.Line("large values", term.Count(done.Values))
				return s.String()
			}); err != nil {
				return err
			}
			if done.Missing > 0 {
				return fmt.Errorf(
					"%s is complete but for %d large values that are gone from the store's folder: their tasks are there",
					args[0], done.Missing,
				)
			}
			return nil
		},
	}
	a.storeFlags(cmd, &store, &folder)
	cmd.Flags().BoolVar(&replace, "replace", false, "replace FILE if it exists")
	return cmd
}

// restoreView is what a restore did, in JSON.
type restoreView struct {
	Store  string     `json:"store"`
	Time   term.Stamp `json:"time"`
	Values int64      `json:"values"`
	Paused int64      `json:"paused_schedules"`
	Aside  string     `json:"aside"`
}

func (a commands) restore() *cobra.Command {
	var store, folder string
	var replace, run bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a SQLite store of a backup",
		Long: `Make a store of a file that rota backup wrote. Nothing may stand there; with --replace a
store that does is moved aside, with its log and its folder, and is not deleted. A store
that a node has open is never replaced: stop the node first. The new one stands there when
it is written, fsynced and checked; Ctrl-C leaves nothing.

The store goes on from the time of the backup; what was done after it is forgotten, and its
tasks run again. No report about a hand-out of before is accepted, and tokens go on higher.
Schedules are paused, since what they fired after the backup would be fired again: look at
rota schedule ls, then rota schedule resume NAME, or backfill what is missing.`,
		Example: `  rota restore /backup/rota-2026-11-21.db --store sqlite:/var/lib/rota/rota.db
  rota restore latest.db --replace`,
		Args: app.Takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := embeddedStore(store)
			if err != nil {
				return err
			}
			if err := exists(args[0]); err != nil {
				return err
			}
			p := a.Progress()
			r := sqlite.Restore{
				File: args[0], Path: path, Folder: folder, Replace: replace, RunSchedules: run,
				Progress: a.copying(p),
			}
			done, err := r.Write(cmd.Context(), a.Now)
			p.Clear()
			if err != nil {
				return a.toldToReplace(cmd.Context(), err)
			}
			return a.Show(restoreView{path, term.Stamp(done.Time), done.Values, done.Paused,
				done.Aside}, func() string {
				s := term.Sheet{Indent: 12}
				s.Line("store", term.Bold(term.OneLine(path)))
				s.Line("as of", done.Time.Format(time.RFC3339))
				s.Line("large values", term.Count(done.Values))
				if done.Paused > 0 {
					s.Line("schedules",
						term.Count(done.Paused)+
							" are paused now: rota schedule resume NAME lets them go on")
				}
				if done.Aside != "" {
					s.Line("before", "what stood there is at "+term.OneLine(done.Aside))
				}
				return s.String()
			})
		},
	}
	a.storeFlags(cmd, &store, &folder)
	cmd.Flags().BoolVar(&replace, "replace", false, "move a store that stands there aside")
	cmd.Flags().BoolVar(&run, "run-schedules", false,
		"leave schedules as they were: each makes up for what was due since the backup, also if it was fired")
	return cmd
}

func (a commands) storeFlags(cmd *cobra.Command, store, folder *string) {
	cmd.Flags().StringVar(store, "store", "sqlite:rota.db",
		"the `store`, as rota serve has it: sqlite:FILE")
	cmd.Flags().StringVar(folder, "blobs", "",
		"`folder` of its contexts above 4 KiB, as rota serve has it (default beside the file)")
	a.AddShared(cmd.Flags(), "output")
}

// embeddedStore is the file of a store on SQLite.
func embeddedStore(store string) (string, error) {
	path, ok := strings.CutPrefix(store, "sqlite:")
	switch {
	case ok && path != "":
		return path, nil
	case strings.HasPrefix(store, "postgres"):
		return "", usage.Errorf(
			"--store: a database is backed up and restored with the tools of PostgreSQL; docs/backup.md says how",
		)
	}
	return "", usage.Errorf("--store %q: write it as sqlite:PATH", store)
}

// exists refuses a file that is not there.
func exists(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, client.ErrNotFound)
	}
	return err
}

// copying shows how far a copy is.
func (a commands) copying(p *term.Progress) func(what string, done, all int64) {
	return func(what string, done, all int64) {
		p.Step(a.Now(), done, float64(done)/float64(max(all, 1)), what)
	}
}

// toldToReplace says how to replace what stands in the way, and that an interrupted command left
// nothing.
func (a commands) toldToReplace(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, sqlite.ErrExists):
		return fmt.Errorf("%w (--replace)", err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}
