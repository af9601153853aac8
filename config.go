package rota

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/names"
	"github.com/rotahq/rota/task"
)

// Config of a node. The zero value is a node on the file rota.db in the current directory that
// serves nobody but its own process.
type Config struct {
	// Store is where the tasks live: "sqlite:PATH", a file that one process works on at a time, or
	// "postgres://USER:PASSWORD@HOST/DATABASE", which many nodes share. Default "sqlite:rota.db".
	//
	// A URL may name several hosts, and what rota is to know of the database: rota_schema=NAME
	// (that its tables stand in; default rota), rota_connections=N (at most; default 12),
	// rota_pooler=true (a pooler hands connections out by the transaction), rota_skip_locked=false,
	// rota_notify=false (the database lacks it).
	Store string
	// Name of the node: at most 128 letters, digits and marks of any script and . - _ : @ +, the
	// first a letter, a digit or _; no two nodes of a store have the same. Default: the machine's
	// name.
	Name string
	// Listen is the address of the REST API, as in "127.0.0.1:7700". Empty: none. An address that
	// others can reach needs TokenFile or Insecure.
	Listen string
	// Advertise is the URL at which the other nodes and workers reach this one's API, as in
	// "http://10.0.0.7:7700". The nodes ask each other every beat whether they serve. Default: the
	// address that it listens on; none when that is every address of the machine.
	Advertise string
	// Blobs is the folder for contexts and results over 4,096 bytes; all nodes of a store must have
	// the same one. Default: the store's file with ".blobs" appended; with PostgreSQL, the
	// database.
	Blobs string
	// Tolerance is how many nodes may die at once with every claimed key still ownable by the
	// others. Default 1.
	Tolerance int
	// Alarm is raised when this node looks after more claimed keys than this. Default 0: never.
	Alarm int
	// Rebalance is what a new cluster begins with: when nodes give claimed keys back. "auto" (the
	// default), while one has more than its share; "manual", only above what it may have at most.
	// What the cluster says by now holds, and the log says so when it is another.
	Rebalance string
	// Capacity is how many of its own handlers (see Handle) the node runs at once. Default 8.
	Capacity int
	// Beat is the time between rounds. Default 1 s.
	Beat time.Duration
	// Lease is how long the node is believed to live after its last sign. Default 10 s, at least
	// three beats. All nodes of a cluster have the same: by it they tell how long another one may
	// go on answering a worker that has gone elsewhere.
	Lease time.Duration
	// StopGrace is how long a stopping node waits for its own handlers before it ends their
	// contexts. Default 30 s.
	StopGrace time.Duration
	// TokenFile holds the access tokens, a line "NAME ROLE TOKEN" each, of at least 16 characters;
	// see Node.ReadTokens. It must not be readable by everybody, nor writable by others than its
	// owner. Empty: everybody who reaches Listen may do everything.
	TokenFile string
	// Insecure allows an address that others can reach without tokens.
	Insecure bool
	// AllowPrivate are the private, loopback and link-local networks that notifiers and sources of
	// jobs may reach. Default: none, so that nobody who may configure one reaches through this node
	// what he can't reach himself.
	AllowPrivate []netip.Prefix
	// SourceFolder is the folder below which groups may have sources of kind file. Default "": the
	// node reads no files of sources, since anybody who may configure a group would choose which
	// ones.
	SourceFolder string
	// AllowCommands lets groups have sources of kind command, and notifiers be of kind run: anybody
	// who may configure a group or a notifier then runs programs with the rights of this process.
	// Any node of a store may be the one that sends notices, so all of them should say the same.
	AllowCommands bool
	// Warmup is how long, at most, a node that begins to look after a group waits for workers to
	// say what they run, before it assigns anything. Default: what the group's policy says, which
	// also holds where it says less.
	Warmup time.Duration
	// Load says how busy the machine is, for the choice of the node that does what one must do.
	// Default: idle.
	Load func() task.Load
	// Version is what the API says of the program. Default "dev".
	Version string
	// Log is where the node tells what it does. Default: slog.Default()'s.
	Log *slog.Logger

	// offerFor is how long free tasks are left to the nodes that are named in an offer. Tests whose
	// machine is busy give more than the default.
	offerFor time.Duration
}

// withDefaults fills in what was left out and says everything that is wrong at once.
func (c Config) withDefaults() (Config, error) {
	var wrong []error
	if c.Store == "" {
		c.Store = "sqlite:rota.db"
	}
	if c.Name == "" {
		c.Name = hostName()
	}
	if c.Capacity == 0 {
		c.Capacity = 8
	}
	if c.Beat == 0 {
		c.Beat = time.Second
	}
	if c.Lease == 0 {
		c.Lease = 10 * time.Second
	}
	if c.StopGrace == 0 {
		c.StopGrace = 30 * time.Second
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Tolerance == 0 {
		c.Tolerance = 1
	}
	if _, err := parseStore(c.Store); err != nil {
		wrong = append(wrong, err)
	}
	if c.Tolerance < 0 || c.Alarm < 0 {
		wrong = append(wrong,
			fmt.Errorf("tolerance %d, alarm %d: must not be negative", c.Tolerance, c.Alarm))
	}
	if !slices.Contains([]string{"", "auto", "manual"}, c.Rebalance) {
		wrong = append(wrong, fmt.Errorf("rebalance %q: must be auto or manual", c.Rebalance))
	}
	if err := checkAdvertise(c.Advertise); err != nil {
		wrong = append(wrong, err)
	}
	if c.Name = names.Canonical(c.Name); !limits.ValidName(c.Name) {
		wrong = append(wrong, fmt.Errorf("name %q %s", c.Name, limits.NameRule))
	}
	if c.Capacity < 0 {
		wrong = append(wrong, fmt.Errorf("capacity %d is below 0", c.Capacity))
	}
	if c.Beat < 0 || c.Lease < 3*c.Beat {
		wrong = append(wrong,
			fmt.Errorf("lease %v is too short for a beat of %v: at least three beats", c.Lease,
				c.Beat))
	}
	if c.Listen != "" && c.TokenFile == "" && !c.Insecure && !loopback(c.Listen) {
		wrong = append(wrong,
			fmt.Errorf(
				"listen address %q can be reached from outside: give a token file, or say that it is meant to be insecure",
				c.Listen,
			))
	}
	return c, errors.Join(wrong...)
}

// checkAdvertise says what is wrong with a URL for others.
func checkAdvertise(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf(
			"advertise %.100q: write it as http://HOST:PORT, as the other nodes reach this one", s,
		)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("advertise %.100q: scheme, host and port are all it may have",
			u.Redacted())
	}
	return nil
}

// loopback tells whether an address is reached from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// hostName is the machine's name as far as it may name a node.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return cmp.Or(names.Of(strings.ToLower(host), limits.MaxName), "node")
}
