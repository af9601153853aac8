package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/wire"
	"github.com/rotahq/rota/task"
)

// DefaultServer is where a client looks when Config names no server.
const DefaultServer = "http://127.0.0.1:7700"

// Config says where the servers are and how patient the client is. The zero value is useful.
type Config struct {
	Servers []string // base URLs, http or https; default DefaultServer
	Token   string   // sent as "Authorization: Bearer …"; default none
	// keep to Servers; default: the other nodes of their cluster are learned, and used when those
	// are away
	Fixed     bool
	UserAgent string        // default "rota"
	HTTP      *http.Client  // default: one of its own, HTTP/1.1 with connections kept alive
	Timeout   time.Duration // of one try, on top of what the call itself waits for; default 30s
	// submissions in flight at a time; what comes meanwhile is gathered; default 1
	Flights int
	// HTTPOnly makes each call over HTTP. Default: submissions, and the calls of workers, go over
	// one WebSocket to the server, which is opened beside the first of them, once it stands and as
	// long as the server takes it; what a call does is the same
	HTTPOnly bool
	Log      *slog.Logger // told once when a server takes no stream; default slog.Default()

	Attempts int // tries of one call, the first included; 1 = never repeat; default 5
	// of all calls, how many may be repeats once RetryFloor is used up; 0 to 1, default 0.1
	RetryShare float64
	RetryFloor float64      // repeats per second that are always allowed; default 10
	Backoff    task.Backoff // pauses between tries; default 100ms × 2 up to 5s, jitter 0.5
}

func (c Config) withDefaults() Config {
	if len(c.Servers) == 0 {
		c.Servers = []string{DefaultServer}
	}
	if c.UserAgent == "" {
		c.UserAgent = "rota"
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Flights == 0 {
		c.Flights = 1
	}
	if c.Attempts == 0 {
		c.Attempts = 5
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.RetryShare == 0 {
		c.RetryShare = 0.1
	}
	if c.RetryFloor == 0 {
		c.RetryFloor = 10
	}
	if c.Backoff == (task.Backoff{}) {
		c.Backoff = task.Backoff{
			Initial: 100 * time.Millisecond, Max: 5 * time.Second, Factor: 2, Jitter: 0.5,
		}
	}
	return c
}

// validate names everything that is wrong.
func (c Config) validate() error {
	var errs []error
	for _, s := range c.Servers {
		if err := checkServer(s); err != nil {
			errs = append(errs, err)
		}
	}
	if strings.ContainsAny(c.Token, "\r\n\x00") {
		errs = append(errs, errors.New("token: must be one line")) // never print it
	}
	if c.Timeout < 0 {
		errs = append(errs, errors.New("timeout: must not be negative"))
	}
	if c.Flights < 0 || c.Attempts < 0 {
		errs = append(errs, errors.New("flights, attempts: must not be negative"))
	}
	if !(c.RetryShare >= 0 && c.RetryShare <= 1) || !(c.RetryFloor >= 0) {
		errs = append(errs, errors.New("retry budget: share must be 0 to 1, floor not negative"))
	}
	return errors.Join(errs...)
}

// checkServer says what is wrong with a server's URL.
func checkServer(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return fmt.Errorf("server %q: %w", s, err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("server %q: want http://HOST:PORT or https://HOST:PORT", s)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("server %q: no query, fragment or password here", u.Redacted())
	}
	return nil
}

// Client speaks to the servers. Its methods may be called at the same time. Make it with New, end
// it with Close.
type Client struct {
	config  Config
	http    *http.Client
	servers servers
	header  http.Header // of every request
	budget  budget
	lines   lines
	silence time.Duration // longestSilence, but in tests

	submissions *gather[task.Submission, task.Receipt]
	mu          sync.Mutex
	reports     map[string]*gather[task.Report, task.Answer] // by worker
	flights     sync.WaitGroup                               // of the gathers, and of learning
}

// New makes a client; it connects at the first call.
func New(c Config) (*Client, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("configure client: %w", err)
	}
	cl := &Client{
		config: c, http: c.HTTP, silence: longestSilence,
		reports: make(map[string]*gather[task.Report, task.Answer]),
	}
	cl.header = http.Header{"User-Agent": {c.UserAgent}}
	if c.Token != "" {
		cl.header["Authorization"] = []string{"Bearer " + c.Token}
	}
	for _, s := range c.Servers {
		cl.servers.given = append(cl.servers.given, strings.TrimRight(s, "/"))
	}
	cl.servers.list = cl.servers.given
	if cl.http == nil {
		cl.http = &http.Client{Transport: transport()}
	}
	if cl.http.CheckRedirect == nil {
		mine := *cl.http // the caller's stays as it is
		mine.CheckRedirect = checkRedirect
		cl.http = &mine
	}
	cl.lines.init(cl)
	cl.budget = budget{share: c.RetryShare, floor: c.RetryFloor}
	cl.submissions = &gather[task.Submission, task.Receipt]{
		flights: c.Flights, running: &cl.flights, limit: task.MaxSubmissions,
		size: submissionSize, safe: allKeyed, fly: cl.submit,
	}
	return cl, nil
}

// Close waits for gathered calls still in flight and drops the connections. Don't call other
// methods after it. A client's never fails: the error is a node's, which closes its store.
func (c *Client) Close() error {
	c.servers.stop()
	c.lines.stop()
	c.flights.Wait()
	c.lines.close()
	if c.config.HTTP == nil {
		c.http.CloseIdleConnections()
	}
	return nil
}

// transport is tuned for few hosts and many calls at once: plain HTTP/1.1, since one connection per
// call in flight is cheaper here than HTTP/2's frames, and no idle connection outlives the server's
// own limit of 60 s.
func transport() http.RoundTripper {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &direct{dial: dialer.DialContext, rest: &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   1024,
		IdleConnTimeout:       50 * time.Second,
		DisableCompression:    true,
		Protocols:             protocols,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
	}}
}

// Submit hands tasks in, all or nothing: at most task.MaxSubmissions tasks and 32 MiB a call. The
// receipts are in the order of the tasks. They are durable when it returns. An error that is
// [ErrOutcomeUnknown] leaves open whether the tasks exist: the connection broke, or ctx ended,
// after they were sent.
func (c *Client) Submit(ctx context.Context, tasks ...task.Submission) ([]task.Receipt, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	if err := refused(wire.CheckContexts(tasks)); err != nil {
		return nil, fmt.Errorf("submit %d tasks: %w", len(tasks), err)
	}
	submit := c.submissions.add
	if callOfItsOwn(tasks) {
		submit = c.submissions.apart
	}
	receipts, err := submit(ctx, tasks)
	if err != nil {
		return nil, fmt.Errorf("submit %d tasks: %w", len(tasks), err)
	}
	return receipts, nil
}
