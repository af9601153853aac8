package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/measure"
	"github.com/rotahq/rota/internal/pause"
	"github.com/rotahq/rota/task"
)

// asked is something that an open overview of the console reads again and again. Tabs of a browser
// read it together.
type asked struct {
	every time.Duration
	path  string
	since time.Duration // the reading begins so long ago; 0 = it does not say
	param string        // that says when it begins
}

// What an open overview shows: the history of the last hour, the forecast, the alarms that stand,
// and the events that are marked on the history.
const (
	alarmKinds = "node.unreachable,node.reachable,node.online,node.offline,alarm.raised,alarm.over," +
		"store.full,store.ok,budget.broken,budget.restored,group.short,group.ok,audit.group.delete," +
		"source.failed,source.ok,notifier.failed,notifier.ok,audit.notifier.delete"
	markKinds = "node.*,worker.dead,workers.silent,queue.unserved,budget.*,store.full," +
		"audit.queue.pause,audit.queue.resume"
)

func overviewAsks() []asked {
	return []asked{
		{6 * time.Second, "v1/stats?step=60s", time.Hour, "from"},
		{10 * time.Second, "v1/forecast", 0, ""},
		{15 * time.Second, "v1/events?limit=1000&kind=" + url.QueryEscape(alarmKinds),
			30 * 24 * time.Hour, "since"},
		{30 * time.Second, "v1/events?limit=1000&kind=" + url.QueryEscape(markKinds), time.Hour, "since"},
	}
}

// A look lasts so long that ten browsers ask in it for what one does in half a minute, in which it
// asks for everything.
const (
	browsers = 10
	look     = 3 * time.Second
)

// consoles measures what it costs that the console is open, with one browser and with ten: the CPU
// that the server uses more while they look, as a share of the machine's. That is the share of the
// throughput that is lost where tasks use all of it; beside a full load it could not be told from
// how far loads differ by themselves. So the server is given a history by such a load first, and
// then 100 tasks a second, so that everything goes on changing. Looks with and without browsers
// take turns, so that other work of the machine weighs on all.
func (r *rig) consoles(ctx context.Context) ([]float64, error) {
	l, done, err := r.remote(ctx, connections, [][]task.Submission{hundred()})
	defer done()
	if err != nil {
		return nil, err
	}
	if _, err := l.during(ctx, func(ctx context.Context) ([]float64, error) {
		l.note("a history is made")
		return nil, pause.For(ctx, look)
	}); err != nil {
		return nil, err
	}
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	flowing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		const pace = 10 * time.Millisecond
		if err := r.paced(flowing, c, math.MaxInt, pace); flowing.Err() == nil {
			stop(err)
		}
	})
	values, err := r.looks(flowing)
	cause := context.Cause(flowing)
	stop(errEnough)
	wg.Wait()
	return values, errors.Join(cause, err)
}

// looks takes turns: nobody looks, one browser does, nobody, ten do.
func (r *rig) looks(ctx context.Context) ([]float64, error) {
	turns := max(1, int(r.Length/look))
	var one, ten float64
	for i := range turns {
		r.note(fmt.Sprintf("look %d of %d", i+1, turns))
		for _, x := range []struct {
			browsers int
			open     time.Duration // how long it was open by now
			more     *float64
		}{{1, time.Duration(i) * look, &one}, {browsers, 0, &ten}} {
			alone, err := r.used(ctx, 0, 0)
			if err != nil {
				return nil, err
			}
			seen, err := r.used(ctx, x.browsers, x.open)
			if err != nil {
				return nil, err
			}
			*x.more += seen - alone
		}
	}
	percent := 100 / float64(turns*runtime.NumCPU())
	return []float64{one * percent, ten * percent}, nil
}

// used is how many cores the server uses while so many browsers look.
func (r *rig) used(ctx context.Context, browsers int, open time.Duration) (float64, error) {
	pid := int32(r.server.Process.Pid)
	begin := time.Now()
	before, err := measure.CPU(pid)
	if err != nil {
		return 0, err
	}
	if err := r.browse(ctx, browsers, open); err != nil {
		return 0, err
	}
	if err := pause.For(ctx, time.Until(begin.Add(look))); err != nil {
		return 0, err
	}
	after, err := measure.CPU(pid)
	return float64(after-before) / float64(time.Since(begin)), err
}

// browse lets so many browsers show the overview for a look. The first one has had it open for a
// while, and they are spread in time, so that each call is made as often in a second as in any
// other.
func (r *rig) browse(ctx context.Context, n int, open time.Duration) error {
	looking, stop := context.WithTimeoutCause(ctx, look, errEnough)
	defer stop()
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	each := func(f func() error) {
		wg.Go(func() {
			if err := f(); looking.Err() == nil {
				once.Do(func() { failed = err })
				stop()
			}
		})
	}
	for i := range n {
		each(func() error { return r.read(looking, "v1/overview/stream") })
		for _, a := range overviewAsks() {
			spread := a.every * time.Duration(i) / time.Duration(n)
			first := (spread + a.every - open%a.every) % a.every
			each(func() error { return r.asks(looking, a, first) })
		}
	}
	wg.Wait()
	return failed
}

// asks makes a call again and again, the first time after a while.
func (r *rig) asks(ctx context.Context, a asked, first time.Duration) error {
	for wait := first; ; wait = a.every {
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
		path := a.path
		if a.param != "" {
			from := time.Now().Add(-a.since).UTC().Truncate(time.Minute).Format(time.RFC3339)
			path += "&" + a.param + "=" + url.QueryEscape(from)
		}
		if err := r.read(ctx, path); err != nil {
			return err
		}
	}
}

// read gets an answer to its end.
func (r *rig) read(ctx context.Context, path string) error {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/"+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", path, answer.Status)
	}
	return nil
}
