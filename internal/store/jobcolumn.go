package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/task"
)

// groupConfig is a group's configuration as stores keep it.
type groupConfig struct {
	Replicas int               `json:"replicas"`
	Selector map[string]string `json:"selector,omitempty"`
	Spread   string            `json:"spread"`
	Kind     string            `json:"kind"`
	Path     string            `json:"path,omitempty"`
	URL      string            `json:"url,omitempty"`
	Command  []string          `json:"command,omitempty"`
	Every    time.Duration     `json:"every"`
	Moves    int               `json:"moves"`
	New      int               `json:"new"`
	Penalty  time.Duration     `json:"penalty"`
	Warmup   time.Duration     `json:"warmup"`
	Paused   bool              `json:"paused,omitempty"`
	// 0 = the default: of groups that were written by an earlier version, too
	Silence    time.Duration `json:"silence,omitempty"`
	JobSilence time.Duration `json:"job_silence,omitempty"`
	Title      string        `json:"title,omitempty"`
	Owner      string        `json:"owner,omitempty"`
}

// sourceRead is a SourceRead as stores keep it.
type sourceRead struct {
	Time    int64  `json:"time"`
	Good    int64  `json:"good,omitempty"`
	Refresh int64  `json:"refresh,omitempty"`
	Hash    string `json:"hash,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Config is the configuration of a group as stores keep it.
func (g *Group) Config() ([]byte, error) {
	return json.Marshal(groupConfig{
		Replicas: g.Replicas, Selector: g.Selector, Spread: g.Spread, Kind: g.Source.Kind,
		Path: g.Source.Path, URL: g.Source.URL,
		Command: g.Source.Command, Every: g.Source.Every, Moves: g.Policy.Moves, New: g.Policy.New,
		Penalty: g.Policy.Penalty,
		Warmup:  g.Policy.Warmup, Paused: g.Paused, Silence: g.Silence, JobSilence: g.JobSilence,
		Title: g.Title, Owner: g.Owner,
	})
}

// SetConfig is the inverse of Config.
func (g *Group) SetConfig(b []byte) error {
	var c groupConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("read group %q: %w", g.Name, err)
	}
	g.Replicas, g.Selector, g.Spread, g.Paused = c.Replicas, c.Selector, c.Spread, c.Paused
	g.Source = task.Source{
		Kind: c.Kind, Path: c.Path, URL: c.URL, Command: c.Command, Every: c.Every,
	}
	g.Policy = task.JobPolicy{Moves: c.Moves, New: c.New, Penalty: c.Penalty, Warmup: c.Warmup}
	g.Silence, g.JobSilence = cmp.Or(c.Silence, limits.DefaultSilence), c.JobSilence
	g.Title, g.Owner = c.Title, c.Owner
	return nil
}

// Text is what came of the reading as stores keep it; nothing when there was none yet.
func (r SourceRead) Text() ([]byte, error) {
	if r == (SourceRead{}) {
		return nil, nil
	}
	return json.Marshal(sourceRead(r))
}

// SetText is the inverse of Text.
func (r *SourceRead) SetText(b []byte) error {
	*r = SourceRead{}
	if len(b) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, (*sourceRead)(r)); err != nil {
		return fmt.Errorf("read what came of a source: %w", err)
	}
	return nil
}

// traits are what stores keep of a seat in one piece: nobody looks for them.
type traits struct {
	Before   []string          `json:"before,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Zone     string            `json:"zone,omitempty"`
	Groups   []string          `json:"groups,omitempty"`
	Draining bool              `json:"draining,omitempty"`
	Shed     task.Units        `json:"shed,omitempty"`
	DrainBy  int64             `json:"drain_by,omitempty"`
	Silence  time.Duration     `json:"silence,omitempty"`
	Overlap  int64             `json:"overlap,omitempty"`
}

// Traits are what stores keep of a seat in one piece.
func (s *Seat) Traits() ([]byte, error) {
	return json.Marshal(traits{
		s.Before, s.Labels, s.Zone, s.Groups, s.Draining, s.Shed, s.DrainBy, s.Silence, s.Overlap,
	})
}

// SetTraits is the inverse of Traits.
func (s *Seat) SetTraits(b []byte) error {
	var t traits
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("read the seat of worker %q: %w", s.Worker, err)
	}
	s.Before = t.Before
	s.Labels = t.Labels
	s.Zone = t.Zone
	s.Groups = t.Groups
	s.Draining = t.Draining
	s.Shed = t.Shed
	s.DrainBy = t.DrainBy
	s.Silence = t.Silence
	s.Overlap = t.Overlap
	return nil
}
