//go:build scenarios && unix

package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotahq/rota/pool"
)

// A pool is a library, so its story is told of one in this process:
//
//	runners N [slots=S] [limit=D] [instead=TEXT] [load=L] [broken=I]   makes a pool of N runners. S is how many functions each is given at
//	                   a time, any number unless it is said; D how long a call may take; TEXT what it gives then; L what a load of 0 is; the
//	                   I-th can't be made
//	run LOAD…          a function of each load is given to the pool, and goes on; printed is who got it
//	each K LOAD        one is given to K runners at once
//	returns N…, fails N…, panics N…   the N-th function ends so, counted from 1; printed is what its caller gets
//	hears N            what the N-th one's caller gets, whose function goes on
//	loads              what each runner carries;  length: how many there are;  closes: closes the pool
var poolVerbs = map[string]func(*scene, []string) (string, error){
	"runners": makeRunners, "run": (*scene).give, "each": (*scene).giveEach,
	"returns": ending("returns"), "fails": ending("fails"), "panics": ending("panics"),
	"hears": ending(""), "loads": (*scene).loads, "length": (*scene).length,
	"closes": (*scene).closes,
}

// runners is a pool, and what was given to it.
type runners struct {
	*pool.Pool[*runner]
	instead string
	calls   []*given
	hanging sync.WaitGroup
	closed  int // runners
}

type runner struct {
	number int
	pool   *runners
}

func (r *runner) Close() error {
	r.pool.closed++ // a pool's Close waits; nobody else looks meanwhile
	return nil
}

// given is a function that was given to the pool.
type given struct {
	runner chan int    // who got it
	ends   chan string // how it is to end
	heard  chan string // what the caller got
}

func makeRunners(s *scene, args []string) (string, error) {
	r := &runners{}
	c := pool.Config{Slots: -1}
	broken := -1
	var err error
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch {
		case i == 0:
			c.Runners, err = strconv.Atoi(a)
		case name == "slots":
			c.Slots, err = strconv.Atoi(value)
		case name == "limit":
			c.Limit.Timeout, err = time.ParseDuration(value)
		case name == "load":
			c.DefaultLoad, err = strconv.ParseFloat(value, 64)
		case name == "instead":
			r.instead = value
		case name == "broken":
			broken, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("no option %q", a)
		}
		if err != nil {
			return "", err
		}
	}
	r.Pool, err = pool.New(c, func(i int) (*runner, error) {
		if i == broken {
			return nil, errors.New("can't be made")
		}
		return &runner{i, r}, nil
	})
	if err != nil {
		return fmt.Sprintf("%d closed\n", r.closed), err
	}
	s.pool.close()
	s.pool = r
	return "", nil
}

// hang is what a function does: it says who runs it, and ends as it is told.
func (g *given) hang(r *runner) (string, error) {
	g.runner <- r.number
	switch how := <-g.ends; how {
	case "fails":
		return "", errors.New("ouch")
	case "panics":
		panic("ouch")
	default:
		return how, nil
	}
}

func (p *runners) begin() *given {
	g := &given{make(chan int, 100), make(chan string, 100), make(chan string, 1)}
	p.calls = append(p.calls, g)
	return g
}

// give gives functions, each once the one before has its runner.
func (s *scene) give(loads []string) (string, error) {
	var who []string
	for _, text := range loads {
		load, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "", err
		}
		g := s.pool.begin()
		s.pool.hanging.Go(func() {
			f := func(_ context.Context, r *runner) (string, error) { return g.hang(r) }
			var or func() (string, error)
			if instead := s.pool.instead; instead != "" {
				or = func() (string, error) { return instead, nil }
			}
			result, err := pool.DoOr(context.Background(), s.pool.Pool, load, f, or)
			g.heard <- got(result, err)
		})
		number, err := g.number()
		if err != nil {
			return "", err
		}
		who = append(who, number)
	}
	return strings.Join(who, " ") + "\n", nil
}

// number is who got the function; "-" as long as nobody has room for it.
func (g *given) number() (string, error) {
	select {
	case number := <-g.runner:
		return strconv.Itoa(number), nil
	case heard := <-g.heard:
		return "", errors.New(heard)
	case <-time.After(200 * time.Millisecond): // it waits
		return "-", nil
	}
}

func (s *scene) giveEach(args []string) (string, error) {
	k, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	load, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return "", err
	}
	g := s.pool.begin()
	s.pool.hanging.Go(func() {
		results, err := pool.DoEach(context.Background(), s.pool.Pool, k, load,
			func(_ context.Context, r *runner, i int) (string, error) {
				how, err := g.hang(r)
				return fmt.Sprintf("%d:%s", i, how), err
			})
		g.heard <- got(strings.Join(results, " "), err)
	})
	who := make(map[string]bool)
	for range k {
		number, err := g.number()
		if err != nil {
			return "", err
		}
		who[number] = true
	}
	if k > 0 && len(who) == k {
		return fmt.Sprintf("%d distinct ones\n", k), nil
	}
	return "", errors.New(<-g.heard)
}

func got(result string, err error) string {
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return result
}

// ending lets functions end so, all that one call gave alike, and says what the callers got.
func ending(how string) func(*scene, []string) (string, error) {
	return func(s *scene, numbers []string) (string, error) {
		var out strings.Builder
		for _, text := range numbers {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > len(s.pool.calls) {
				return "", fmt.Errorf("no function %q", text)
			}
			g := s.pool.calls[n-1]
			for range cap(g.ends) {
				if how != "" {
					g.ends <- how
				}
			}
			fmt.Fprintln(&out, <-g.heard)
		}
		return out.String(), nil
	}
}

func (s *scene) loads([]string) (string, error) {
	var loads []string
	for _, r := range s.pool.View().Runners {
		loads = append(loads, strconv.FormatFloat(r.Load, 'f', -1, 64))
	}
	return strings.Join(loads, " ") + "\n", nil
}

func (s *scene) length([]string) (string, error) {
	return strconv.Itoa(s.pool.Len()) + "\n", nil
}

// closes closes the pool; its functions are told to return first.
func (s *scene) closes([]string) (string, error) {
	s.pool.end()
	err := errors.Join(s.pool.Close(), s.pool.Close())
	return fmt.Sprintf("%d closed\n", s.pool.closed), err
}

func (p *runners) end() {
	for _, g := range p.calls {
		close(g.ends)
	}
	p.calls = nil
}

func (p *runners) close() {
	if p == nil {
		return
	}
	p.end()
	p.hanging.Wait()
	_ = p.Close() // whatever the story did to it
}
