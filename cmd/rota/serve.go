package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/rotahq/rota"
)

func (a *app) serve() *cobra.Command {
	var c rota.Config
	var level slog.Level
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node: it keeps tasks in its store, hands them to workers and answers the REST API.

Without --token-file everybody who reaches the address may do everything, so a node then
listens on loopback addresses only; --insecure says that the network is trusted. The file
has one line per token, NAME ROLE TOKEN, where ROLE is admin, operator, submitter, worker
or viewer; it should be readable by its owner only.

Ctrl-C or SIGTERM ends the node cleanly: it takes nothing new, answers what is under way,
and gives its tasks back. Nothing that was acknowledged is lost by any other end either.`,
		Example: `  rota serve
  rota serve --store sqlite:/var/lib/rota/work.db --listen 10.0.0.5:7700 --token-file /etc/rota/tokens`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Log, c.Version = a.logger(level), version()
			if err := checkAccess(c.Listen, c.TokenFile, c.Insecure); err != nil {
				return err
			}
			if readableByOthers(c.TokenFile) {
				c.Log.Warn("others can read the access tokens", "file", c.TokenFile, "mend", "chmod 600 "+c.TokenFile)
			}
			return a.runNode(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", "127.0.0.1:7700", "`address` to listen on; port 0 = any free one")
	f.StringVar(&c.Store, "store", "sqlite:rota.db", "where tasks are kept: sqlite:`FILE`")
	f.StringVar(&c.Name, "name", "", "`name` of the node among its peers (default made from the host's name)")
	f.StringVar(&c.Blobs, "blobs", "", "`folder` for contexts above 4 KiB (default beside the store)")
	f.DurationVar(&c.Beat, "beat", time.Second, "one turn of the heartbeat")
	f.DurationVar(&c.Lease, "lease", 10*time.Second, "how long the node counts as alive after its last beat; at least three beats")
	f.StringVar(&c.TokenFile, "token-file", "", "`file` with access tokens, lines of NAME ROLE TOKEN (default none)")
	f.BoolVar(&c.Insecure, "insecure", false, "listen on any address without access tokens")
	f.TextVar(&level, "log-level", slog.LevelInfo, "`level` from which on to log: debug, info, warn or error")
	return cmd
}

// runNode opens the node, says where it is, and runs it until ctx ends.
func (a *app) runNode(ctx context.Context, c rota.Config) error {
	node, err := rota.Open(ctx, c)
	if err != nil {
		return err
	}
	url := "http://" + node.Addr()
	s := sheet{indent: 10}
	s.line("node", bold(url)+" "+faint(c.Version))
	s.line("store", c.Store)
	s.line("durability", "local: on disk before every answer")
	s.line("docs", url+"/docs")
	if _, err := lipgloss.Fprint(a.out, s.String()); err != nil {
		return errors.Join(err, node.Close())
	}
	return node.Run(ctx)
}

// checkAccess refuses a node that strangers could reach without a token.
func checkAccess(listen, tokenFile string, insecure bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usagef("--listen %q: want HOST:PORT, as 127.0.0.1:7700", listen)
	}
	ip := net.ParseIP(host)
	if tokenFile != "" || insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usagef("--listen %s can be reached from other machines: give access tokens with --token-file, or say --insecure if that network is trusted", listen)
}

// readableByOthers tells whether users other than the owner may read the file. A file that can't be looked at is the
// affair of whoever opens it.
func readableByOthers(file string) bool {
	if file == "" || runtime.GOOS == "windows" {
		return false
	}
	stat, err := os.Stat(file)
	return err == nil && stat.Mode().Perm()&0o044 != 0
}

// logger writes for people on a terminal, JSON for everything else.
func (a *app) logger(level slog.Level) *slog.Logger {
	if _, ok := terminal(a.err); !ok {
		return slog.New(slog.NewJSONHandler(a.err, &slog.HandlerOptions{Level: level}))
	}
	noColour, _ := a.env("NO_COLOR")
	return slog.New(tint.NewTextHandler(a.err, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: noColour != ""}))
}

// nameHere is a worker's name made of the host's name and the process id, by the rule for names.
func nameHere(host string, pid int) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, strings.ToLower(host))
	name = strings.TrimLeft(name, "._-")
	if name == "" {
		name = "host"
	}
	return fmt.Sprintf("%.100s-%d", name, pid)
}
