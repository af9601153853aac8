package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rotahq/rota/internal/limits"
	"github.com/rotahq/rota/internal/store"
	"github.com/rotahq/rota/internal/store/fault"
	"github.com/rotahq/rota/task"
)

// confClaims is what holds for changes of all configurations.
func confClaims() []claim {
	return slices.Concat(claimsOf("Queue", queueConfs), claimsOf("Group", groupConfs),
		claimsOf("Notifier", notifierConfs), claimsOf("Hook", hookConfs), []claim{
			{"ARefusedChangeGivesAGroupNoVersion", func(s *scene) {
				s.group("g", 1)
				_, err := s.ChangeGroup(s.ctx, "g", func(*task.Group, bool) error {
					return errRefused
				})
				s.wantErr("a refused change", err, errRefused)
				_, err = s.ChangeGroup(s.ctx, "other", func(*task.Group, bool) error {
					return errRefused
				})
				s.wantErr("a refused creation", err, errRefused)
				s.want("version", s.groups()[0].Version, int64(1))
				s.group("g", 1)
				s.want("version after a change", s.groups()[0].Version, int64(2))
			}},
		})
}

// confs are the configurations of one kind.
type confs[T any] struct {
	*scene
	fresh  T // what x is to begin with
	change func(context.Context, string, store.Change[T]) (store.Changed[T], error)
	list   func(context.Context) ([]T, error)
	remove func(name string) error
	// fields are some of a configuration's: pointers to numbers and texts. The first is
	// everybody's; the others each belong to one writer.
	fields func(*T) []any
	name   func(*T) *string
}

func queueConfs(s *scene) confs[task.Queue] {
	return confs[task.Queue]{
		s, limits.DefaultQueue("x"), s.ChangeQueue, s.Queues, func(name string) error {
			return s.DeleteQueue(s.ctx, name, false)
		},
		func(q *task.Queue) []any {
			return []any{
				&q.HoldLimit, &q.Timeout, &q.Silence, &q.MaxAttempts, &q.Retry.Initial,
				&q.PollInterval,
				&q.Retention, &q.DeadKept, &q.FinalQueue, &q.Title, &q.Owner,
			}
		}, func(q *task.Queue) *string { return &q.Name },
	}
}

func groupConfs(s *scene) confs[task.Group] {
	list := func(context.Context) (list []task.Group, err error) {
		for _, g := range s.groups() {
			list = append(list, g.Group)
		}
		return list, nil
	}
	return confs[task.Group]{
		s, limits.DefaultGroup("x"), s.ChangeGroup, list, func(name string) error {
			return s.DeleteGroup(s.ctx, name, false)
		},
		func(g *task.Group) []any {
			return []any{
				&g.Replicas, &g.Source.URL, &g.Source.Every, &g.Policy.Moves, &g.Policy.New,
				&g.Policy.Penalty, &g.Policy.Warmup, &g.Title, &g.Owner,
			}
		}, func(g *task.Group) *string { return &g.Name },
	}
}

func notifierConfs(s *scene) confs[store.Notifier] {
	return confs[store.Notifier]{
		s, store.Notifier{Name: "x"}, s.ChangeNotifier, s.Notifiers, func(name string) error {
			return s.DeleteNotifier(s.ctx, name)
		},
		func(n *store.Notifier) []any {
			return []any{
				&n.Chat, &n.Format, &n.Template, &n.Server, &n.User, &n.Secrets.URL, &n.Secrets.Key,
				&n.Secrets.Password,
			}
		}, func(n *store.Notifier) *string { return &n.Name },
	}
}

func hookConfs(s *scene) confs[store.Hook] {
	return confs[store.Hook]{
		s, store.Hook{Name: "x"}, s.ChangeHook, s.Hooks, func(name string) error {
			return s.DeleteHook(s.ctx, name)
		},
		func(h *store.Hook) []any {
			return []any{
				&h.Scheme, &h.Header, &h.Secrets, &h.Prefix, &h.Tolerance, &h.ID, &h.Queue,
				&h.GroupKey,
			}
		}, func(h *store.Hook) *string { return &h.Name },
	}
}

// claimsOf is what holds for changes of one kind of configuration.
func claimsOf[T any](noun string, of func(*scene) confs[T]) []claim {
	return []claim{
		{"AChangeOfA" + noun + "IsGivenWhatStands", func(s *scene) { of(s).showGiven() }},
		{"ARefusedChangeOfA" + noun + "ChangesNothing", func(s *scene) { of(s).showRefused() }},
		{"OfManyChangesOfA" + noun + "AtOnceNoneIsLost", func(s *scene) { of(s).showKept(8) }},
		{"A" + noun + "ThatIsChangedAndDeletedAtOnceIsMadeAsOftenAsItGoes", func(s *scene) {
			of(s).showMade(4, 12)
		}},
	}
}

var errRefused = errors.New("refused")

func (c confs[T]) showGiven() {
	is := c.fresh
	for i := range c.fields(&is) {
		var given T
		var stands bool
		got, err := c.change(c.ctx, "x", func(is *T, there bool) error {
			given, stands = *is, there
			setNumber(c.fields(is)[i], 7+i)
			*c.name(is) = "y"
			return nil
		})
		c.ok(err)
		c.want(fmt.Sprintf("what change %d was given", i+1), given, is)
		c.want(fmt.Sprintf("whether it stands before change %d", i+1), stands, i > 0)
		setNumber(c.fields(&is)[i], 7+i)
		c.want(fmt.Sprintf("answer to change %d", i+1), got, store.Changed[T]{
			Is: is, Created: !stands,
		})
		c.want(fmt.Sprintf("what stands after change %d", i+1), c.all(), []T{is})
	}
}

func (c confs[T]) showRefused() {
	spoil := func(is *T, _ bool) error {
		for _, f := range c.fields(is) {
			setNumber(f, 99)
		}
		return errRefused
	}
	_, err := c.change(c.ctx, "x", spoil)
	c.wantErr("a refused creation", err, errRefused)
	c.want("what stands after it", c.all(), []T(nil))
	_, err = c.change(c.ctx, "x", store.Whole(c.fresh))
	c.ok(err)
	_, err = c.change(c.ctx, "x", spoil)
	c.wantErr("a refused change", err, errRefused)
	c.want("what stands after it", c.all(), []T{c.fresh})
}

// showKept lets each of several change a field of his own, and all of them one more, at once,
// beginning with nothing.
func (c confs[T]) showKept(rounds int) {
	writers := len(c.fields(&c.fresh)) - 1
	errs, made := make([]error, writers), make([]int, writers)
	var crowd sync.WaitGroup
	for w := range writers {
		crowd.Go(func() {
			for round := 1; round <= rounds && errs[w] == nil; round++ {
				var got store.Changed[T]
				got, errs[w] = c.change(c.ctx, "x", func(is *T, _ bool) error {
					f := c.fields(is)
					setNumber(f[0], number(f[0])+1)
					setNumber(f[w+1], round)
					return nil
				})
				if got.Created {
					made[w]++
				}
			}
		})
	}
	crowd.Wait()
	c.ok(errors.Join(errs...))
	sum := 0
	for _, n := range made {
		sum += n
	}
	c.want("how often it was created", sum, 1)
	want := c.fresh
	fields := c.fields(&want)
	setNumber(fields[0], number(fields[0])+writers*rounds)
	for _, f := range fields[1:] {
		setNumber(f, rounds)
	}
	c.want("what the changes left", c.all(), []T{want})
}

// showMade lets some change a configuration while others delete it. One that is made begins with
// what is new, any other goes on.
func (c confs[T]) showMade(pairs, rounds int) {
	first := number(c.fields(&c.fresh)[0])
	errs, made, gone := make([]error, 2*pairs), make([]int, pairs), make([]int, pairs)
	var crowd sync.WaitGroup
	for p := range pairs {
		crowd.Go(func() {
			for range rounds {
				got, err := c.change(c.ctx, "x", func(is *T, stands bool) error {
					f := c.fields(is)[0]
					if stands == (number(f) == first) {
						return fmt.Errorf("it stands: %v, and %d changes were made", stands,
							number(f)-first)
					}
					setNumber(f, number(f)+1)
					return nil
				})
				errs[p] = errors.Join(errs[p], err)
				if got.Created {
					made[p]++
				}
			}
		})
		crowd.Go(func() {
			for range rounds {
				switch err := c.remove("x"); {
				case err == nil:
					gone[p]++
				case !errors.Is(err, store.ErrNotFound):
					errs[pairs+p] = errors.Join(errs[pairs+p], err)
				}
			}
		})
	}
	crowd.Wait()
	c.ok(errors.Join(errs...))
	left := len(c.all())
	for p := range pairs {
		left += gone[p] - made[p]
	}
	c.want("how much more often it went or stands than it was made", left, 0)
}

func (c confs[T]) all() []T {
	list, err := c.list(c.ctx)
	c.ok(err)
	return list
}

// number is the one that stands in a field; a text that is none is 0.
func number(field any) (n int) {
	switch f := field.(type) {
	case *int:
		return *f
	case *time.Duration:
		return int(*f)
	case *string:
		n, _ = strconv.Atoi(*f)
	case *store.Secret:
		n, _ = strconv.Atoi(string(*f))
	case *[]store.Secret:
		if len(*f) > 0 {
			return number(&(*f)[0])
		}
	}
	return n
}

// setNumber puts a number into a field.
func setNumber(field any, n int) {
	switch f := field.(type) {
	case *int:
		*f = n
	case *time.Duration:
		*f = time.Duration(n)
	case *string:
		*f = strconv.Itoa(n)
	case *store.Secret:
		*f = store.Secret(strconv.Itoa(n))
	case *[]store.Secret:
		*f = []store.Secret{store.Secret(strconv.Itoa(n))}
	}
}

// confFaultStory leads configurations through every write and answers what is left of them. It
// repeats what fails.
func (s *scene) confFaultStory() (lines []string) {
	return slices.Concat(queueConfs(s).faultStory(), groupConfs(s).faultStory(),
		notifierConfs(s).faultStory(), hookConfs(s).faultStory())
}

func (c confs[T]) faultStory() (lines []string) {
	put := func(name string, field, n int) {
		again(c.scene, func() (store.Changed[T], error) {
			return c.change(c.ctx, name, func(is *T, _ bool) error {
				setNumber(c.fields(is)[field], n)
				return nil
			})
		})
	}
	put("x", 0, 5)
	put("x", 1, 6)
	put("y", 2, 7)
	again(c.scene, func() (store.Changed[T], error) {
		return c.change(c.ctx, "z", store.Whole(c.fresh))
	})
	put("y", 0, 8)
	_, err := c.change(c.ctx, "z", func(*T, bool) error { return errRefused })
	if !errors.Is(err, errRefused) && !errors.Is(err, fault.ErrFault) {
		c.fail("a refused change: %v", err)
	}
	for _, is := range c.all() {
		line := *c.name(&is)
		for _, f := range c.fields(&is) {
			line += fmt.Sprint(" ", number(f))
		}
		lines = append(lines, line)
	}
	return lines
}
