package nodetest

import (
	"context"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/dispatch"
	"github.com/rotahq/rota/internal/scheduler"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/internal/supervise"
	"github.com/rotahq/rota/task"
)

// MaxAge is that of what was read, for beats to be answered by it.
const MaxAge = Lease * 3 / 4

// Jobs is what a node has for jobs, besides a supervisor of each group that it has claimed.
type Jobs struct {
	Sessions *supervise.Sessions
	Cache    *supervise.ClusterCache

	mu    sync.Mutex
	heard time.Time // when the last renewal was asked for that was answered
}

// Held says whether the node is certainly a member.
func (j *Jobs) Held() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(j.heard) >= Lease-Beat {
		return fault.ErrAway
	}
	return nil
}

func (j *Jobs) hear(asked time.Time, got store.Beat) {
	j.mu.Lock()
	j.heard = asked
	j.mu.Unlock()
	if j.Sessions != nil { // it has joined
		j.Sessions.HearStore(got.Leases)
	}
}

// WithJobs is the configuration of a house whose nodes have jobs. supervisor changes how each
// supervisor is made; nil = as it is.
func WithJobs(supervisor func(*Node[*Jobs], *supervise.Config)) Config[*Jobs] {
	return Config[*Jobs]{
		Scheduler: func(n *Node[*Jobs], c *scheduler.Config) error {
			n.Own = &Jobs{Cache: supervise.NewClusterCache(n.Door, Beat)}
			tasks := c.Heard
			c.Heard = func(asked, answered time.Time, got store.Beat) {
				tasks(asked, answered, got)
				n.Own.hear(asked, got)
			}
			return nil
		},
		Dispatcher: func(n *Node[*Jobs], c *dispatch.Config) error {
			if err := claimGroups(n, supervisor); err != nil {
				return err
			}
			var err error
			n.Own.Sessions, err = supervise.NewSessions(supervise.SessionsConfig{
				Cache: n.Own.Cache, Store: n.Door, Holder: n.Holder, Secret: Secret(),
				Held: n.Own.Held, Beat: Beat, MaxAge: MaxAge, Log: n.Log,
				Reserve: func(worker string, load task.Units) { n.Tasks.Reserve(worker, load) },
			})
			c.Jobs = n.Own.Sessions
			n.Loop(n.Own.Sessions.Run)
			return err
		},
	}
}

// claimGroups lets a node have a supervisor of each group that it looks after.
func claimGroups(n *Node[*Jobs], change func(*Node[*Jobs], *supervise.Config)) error {
	return n.Rounds.Claim(scheduler.Kind{Name: "group", Keys: n.Own.Cache.Names,
		Look: func(ctx context.Context, c scheduler.Claim) {
			conf := supervise.Config{
				Cache: n.Own.Cache, Store: n.Door, Group: c.Key, Claim: store.Lease{
					Name: "claim/group/" + c.Key, Holder: n.Name + "@" + n.Start, Token: c.Token,
				},
				Beat: Beat, Log: n.Log,
			}
			if change != nil {
				change(n, &conf)
			}
			s, err := supervise.New(conf)
			if err == nil {
				err = s.Run(ctx)
			}
			if err != nil {
				n.T.Errorf("supervise %s at %s: %v", c.Key, n.Name, err)
			}
		}})
}
