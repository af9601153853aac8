package serving

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/rotahq/rota"
	"github.com/rotahq/rota/internal/cli/app"
	"github.com/rotahq/rota/internal/term"
	"github.com/rotahq/rota/internal/usage"
	"github.com/spf13/cobra"
)

// commands are the commands that run a node, and look after its store and its machine.
type commands struct{ *app.App }

// Commands are the commands that run a node, and look after its store and its machine.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.serve(), c.backup(), c.restore(), c.doctor()}
}

// serveFlags are what `rota serve` was told.
type serveFlags struct {
	node  rota.Config // but for what is below, and for what no flag says
	level slog.Level
	own   ownWork
}

func (a commands) serve() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [--queue Q… | --group G…] [-- COMMAND [ARG…]]",
		Short: "Run a node",
		Long: `Run a node: it keeps tasks in its store, hands them to workers and answers the REST API.

Without --token-file everybody who reaches the address may do everything, so a node then
listens on loopback addresses only; --insecure says that the network is trusted. The file
has a line NAME ROLE TOKEN for each token:

    # reads everything
    grafana  viewer     3f0c5a...
    # submits and cancels by id, besides
    shop     submitter  91ab07...
    # all but deleting queues
    ann      operator   77d1f2...
    # everything
    root     admin      c2e5b9...
    # works as rota worker --name box-1, and reads queues; NAME * = under any name
    box-1    worker     0a4e88...

Behind a token may stand what it reaches, as in queues=mail,img-* groups=feeds; then it
reaches nothing else. A worker's may also say what that declares at most, as in
labels=zone:a,gpu:* capacity=8 (docs/access.md has the rest).

Make tokens with: openssl rand -hex 32; fewer than 16 characters are refused, and so is a
file that everybody may read. SIGHUP makes the node read the file again; when anything is
wrong with it the node says so and keeps the tokens that it has. Tokens travel as they are:
over a network put TLS in front, by a reverse proxy that does not buffer.

Ctrl-C or SIGTERM ends the node cleanly: it takes nothing new, answers what is under
way, and gives its tasks back; a second one ends it at once. Nothing that was acknowledged
is lost by any other end either.

With --queue or --group the node runs COMMAND itself, as a worker of its own name, up to
--capacity at a time: rota worker says what COMMAND finds and is to do. These are the
executors of rota node ls: the busier they are the less of what one node does for all it
gets. A drained node finishes what it runs and takes nothing new.`,
		Example: `  rota serve
  rota serve --store sqlite:/var/lib/rota/work.db --listen 10.0.0.5:7700 --token-file /etc/rota/tokens
  rota serve --store postgres://rota@db/rota --name a --listen 10.0.0.5:7700 --token-file /etc/rota/tokens
  rota serve --capacity 4 --queue thumbnails -- ./thumbnail.sh`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := f.node
			c.Log, c.Version = a.Logger(f.level), app.Version()
			if err := errors.Join(
				app.CheckGiven(cmd.Flags(), "beat", "lease", "tolerance", "warmup"),
				checkAccess(c.Listen, c.TokenFile, c.Insecure),
				f.own.check(cmd.ArgsLenAtDash(), args), f.own.checkCapacity(cmd.Flags()),
			); err != nil {
				return err
			}
			c.Load, c.Capacity = app.MachineLoad, f.own.capacity
			done, err := a.begin(&f.own)
			if err != nil {
				return err
			}
			defer done()
			return a.runMember(cmd.Context(), c, &f.own)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *serveFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.node.Listen, "listen", "127.0.0.1:7700",
		"`address` to listen on; port 0 = any free one")
	s.StringVar(&f.node.Store, "store", "sqlite:rota.db",
		"`where` tasks are kept: sqlite:FILE, or postgres://USER@HOST/DATABASE for several nodes")
	s.StringVar(&f.node.Name, "name", "",
		"`name` of the node among its peers (default made from the host's name)")
	s.StringVar(&f.node.Advertise, "advertise", "",
		"`URL` at which other nodes and workers reach this one (default the address it listens on)")
	s.StringVar(&f.node.Blobs, "blobs", "",
		"`folder` for contexts above 4 KiB, the same for all nodes (default beside the file, or in the database)")
	s.IntVar(&f.node.Tolerance, "tolerance", 1,
		"how many nodes may die at once with every claimed key still ownable")
	s.IntVar(&f.node.Alarm, "alarm", 0,
		"raise an alarm when this node looks after more claimed keys (0 = never)")
	s.StringVar(&f.node.Rebalance, "rebalance", "",
		"what a new cluster begins with: `auto`, or manual = keys are given back above the cap only (default auto)")
	s.DurationVar(&f.node.Beat, "beat", time.Second, "one turn of the heartbeat")
	s.DurationVar(&f.node.Lease, "lease", 10*time.Second,
		"how long the node counts as alive after its last beat: the same at all nodes, at least three beats")
	s.DurationVar(&f.node.Warmup, "warmup", 0,
		"how long at most to wait for workers before groups are assigned (default what each group says, 30s)")
	s.StringVar(&f.node.SourceFolder, "source-folder", "",
		"`folder` below which the files are that groups name as sources of their jobs (default none is read)")
	s.BoolVar(&f.node.AllowCommands, "allow-commands", false,
		"run the commands that groups name as sources of their jobs, and notifiers for events")
	s.StringVar(&f.node.TokenFile, "token-file", "",
		"`file` with access tokens, lines of NAME ROLE TOKEN, and behind that perhaps what it reaches, as queues=mail,img-* groups=feeds labels=zone:a capacity=8 (default none)")
	s.BoolVar(&f.node.Insecure, "insecure", false, "listen on any address without access tokens")
	s.Var(networks{&f.node.AllowPrivate}, "allow-private",
		"private `networks` that notifiers and sources of jobs may reach, as in 10.0.0.0/8,127.0.0.1/32 (default none)")
	s.TextVar(&f.level, "log-level", slog.LevelInfo,
		"`level` from which on to log: debug, info, warn or error")
	f.own.add(cmd)
}

// runMember runs the node. When the others took it for dead, which happens to one that is cut off
// from the store for longer than its lease, it joins again.
func (a commands) runMember(ctx context.Context, c rota.Config, own *ownWork) error {
	node, err := rota.Open(ctx, c)
	if err == nil {
		err = a.showNode(ctx, node, &c)
	}
	for err == nil {
		if err = a.handlers(node, node.Name(), own); err != nil {
			return errors.Join(err, node.Close())
		}
		if err = a.attend(ctx, node, c.Log); !errors.Is(err, rota.ErrOusted) || ctx.Err() != nil {
			return err
		}
		c.Log.Warn(
			"joining again: this node was cut off from the store, or stopped, for longer than its lease",
			"error", err,
		)
		if node, err = rejoin(ctx, node, c.Log); err == nil {
			c.Log.Info("joined again", "node", "http://"+node.Addr())
		}
	}
	return err
}

// attend runs a node, which reads its tokens again at each SIGHUP.
func (a commands) attend(ctx context.Context, node *rota.Node, log *slog.Logger) error {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	a.HeedHangups()
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
			}
			if err := node.ReadTokens(); err != nil {
				log.Error("access tokens stay as they are", "error", err)
			} else {
				log.Info("access tokens were read again")
			}
		}
	})
	err := node.Run(ctx)
	close(done)
	reading.Wait()
	signal.Stop(signals)
	return err
}

// rejoinPause is how long a store that is away is left alone.
const rejoinPause = 2 * time.Second

// rejoin opens a node again, on the store that it had, however long that is away.
func rejoin(ctx context.Context, node *rota.Node, log *slog.Logger) (*rota.Node, error) {
	for {
		again, err := node.Reopen(ctx)
		if !errors.Is(err, rota.ErrOutOfReach) || errors.Is(err, rota.ErrBroken) {
			return again, err
		}
		log.Warn("waiting for the store, to join again", "error", err)
		select {
		case <-time.After(rejoinPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// showNode says where a node is, and what it promises.
func (a commands) showNode(ctx context.Context, node *rota.Node, c *rota.Config) error {
	durability, err := node.Durability(ctx)
	if err != nil {
		return errors.Join(err, node.Close())
	}
	url := "http://" + node.Addr()
	s := term.Sheet{Indent: 10}
	s.Line("node", term.Bold(url)+" "+term.Faint(c.Version))
	s.Line("store", withoutSecrets(c.Store))
	s.Line("durability", durability+": "+durabilities[durability])
	s.Line("console", browsable(url)+"/")
	s.Line("docs", browsable(url)+"/docs")
	if _, err := lipgloss.Fprint(a.Out, s.String()); err != nil {
		return errors.Join(err, node.Close())
	}
	return nil
}

// browsable is a node's URL as a browser on its machine finds it.
func browsable(url string) string {
	for _, everywhere := range []string{"http://[::]:", "http://0.0.0.0:"} {
		if port, ok := strings.CutPrefix(url, everywhere); ok {
			return "http://localhost:" + port
		}
	}
	return url
}

// durabilities say in words what is durable before every answer.
var durabilities = map[string]string{
	"none":  "not even on the database's disk before an answer (fsync or full_page_writes is off)",
	"local": "on disk before every answer",
	"async": "on the primary's disk before every answer; its standbys may lack what came last",
	"sync":  "on the disks of the primary and a standby before every answer",
}

// withoutSecrets is a store's name as it may be shown: passwords may stand in a URL's parameters,
// too.
func withoutSecrets(store string) string {
	u, err := url.Parse(store)
	if err != nil || u.Host == "" && u.User == nil {
		return strings.SplitN(store, "?", 2)[0]
	}
	query := url.Values{}
	if schema := u.Query().Get("rota_schema"); schema != "" {
		// it tells two systems in one database apart
		query.Set("rota_schema", schema)
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}

// checkAccess refuses a node that strangers could reach without a token.
func checkAccess(listen, tokenFile string, insecure bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usage.Errorf("--listen %q: want HOST:PORT, as 127.0.0.1:7700", listen)
	}
	ip := net.ParseIP(host)
	if tokenFile != "" || insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usage.Errorf(
		"--listen %s can be reached from other machines: give access tokens with --token-file, or say --insecure if that network is trusted",
		listen,
	)
}
