package rota

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotahq/rota/task"
)

// Config of a node. The zero value is a node on the file rota.db in the current directory that serves nobody but its own process.
type Config struct {
	// Store is where the tasks live: "sqlite:PATH". Default "sqlite:rota.db".
	Store string
	// Name of the node, [a-z0-9][a-z0-9._-]{0,127}. Default: the machine's name.
	Name string
	// Listen is the address of the REST API, as in "127.0.0.1:7700". Empty: none. An address that others can reach needs TokenFile
	// or Insecure.
	Listen string
	// Blobs is the folder for contexts and results over 4,096 bytes. Default: the store's file with ".blobs" appended.
	Blobs string
	// Capacity is how many of its own handlers (see Handle) the node runs at once. Default 8.
	Capacity int
	// Beat is the time between rounds. Default 1 s.
	Beat time.Duration
	// Lease is how long the node is believed to live after its last sign. Default 10 s, at least three beats.
	Lease time.Duration
	// StopGrace is how long a stopping node waits for its own handlers before it ends their contexts. Default 30 s.
	StopGrace time.Duration
	// TokenFile holds the access tokens, a line "NAME ROLE TOKEN" each. Empty: everybody who reaches Listen may do everything.
	TokenFile string
	// Insecure allows an address that others can reach without tokens.
	Insecure bool
	// Version is what the API says of the program. Default "dev".
	Version string
	// Log is where the node tells what it does. Default: nowhere.
	Log *slog.Logger
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
		c.Log = slog.New(slog.DiscardHandler)
	}
	path, err := c.sqlitePath()
	if err != nil {
		wrong = append(wrong, err)
	}
	if c.Blobs == "" {
		c.Blobs = path + ".blobs"
	}
	if !task.ValidName(c.Name) {
		wrong = append(wrong, fmt.Errorf("name %q %s", c.Name, task.NameRule))
	}
	if c.Capacity < 0 {
		wrong = append(wrong, fmt.Errorf("capacity %d is below 0", c.Capacity))
	}
	if c.Beat < 0 || c.Lease < 3*c.Beat {
		wrong = append(wrong, fmt.Errorf("lease %v is too short for a beat of %v: at least three beats", c.Lease, c.Beat))
	}
	if c.Listen != "" && c.TokenFile == "" && !c.Insecure && !loopback(c.Listen) {
		wrong = append(wrong, fmt.Errorf("listen address %q can be reached from outside: give a token file, or say that it is meant to be insecure", c.Listen))
	}
	return c, errors.Join(wrong...)
}

// sqlitePath is the file of an embedded store.
func (c Config) sqlitePath() (string, error) {
	kind, path, ok := strings.Cut(c.Store, ":")
	switch {
	case !ok || path == "":
		return "", fmt.Errorf("store %q: write it as sqlite:PATH", c.Store)
	case kind != "sqlite":
		return "", fmt.Errorf("store %q: this version keeps tasks in sqlite:PATH only", kind+":…") // the rest may hold a password
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // what stands beside the file is found by its own name
		path = real
	}
	return filepath.Clean(path), nil
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
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, strings.ToLower(host))
	if host = strings.TrimLeft(host, ".-_"); !task.ValidName(host) {
		return "node"
	}
	return host
}
